package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import millrace.engine.BackendException;

/// Memory outside the heap, for weights and cache pages, by absolute address.
///
/// Kernels read through [#ALL], which spans the address space: the bounds check then vanishes from the inner loops.
/// What makes this safe is that addresses come from two places only, [Matrix] and the cache's page tables, which hold
/// the memory that they point into and check every range once, outside the loops.
public final class Memory {
    /// The whole address space.
    @SuppressWarnings("restricted")
    public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /// Cache line and widest vector.
    public static final long ALIGNMENT = 64;

    private Memory() {}

    /// Zeroed memory that lives as long as the arena, aligned to 64 bytes.
    ///
    /// @param what for the message, for example `the KV cache`
    /// @throws BackendException `MEMORY_EXHAUSTED` if the process may not have so much
    public static MemorySegment allocate(Arena arena, long bytes, String what) {
        return allocate(arena, bytes, what, false);
    }

    /// The same for weights and whatever else is filled at once and read in long streams: in large pages, where the
    /// system has them.
    public static MemorySegment allocateDense(Arena arena, long bytes, String what) {
        return allocate(arena, bytes, what, true);
    }

    private static MemorySegment allocate(Arena arena, long bytes, String what, boolean dense) {
        try {
            MemorySegment mapped = Pages.map(arena, bytes, dense);
            return mapped != null ? mapped : arena.allocate(bytes, ALIGNMENT);
        } catch (OutOfMemoryError e) {
            throw new BackendException(
                    "MEMORY_EXHAUSTED",
                    "memory for %s: expected %d bytes outside the heap, got \"%s\"; free memory or lower the KV budget"
                            .formatted(what, bytes, e.getMessage()));
        }
    }
}

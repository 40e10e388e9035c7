package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/// Large pieces of memory straight from the system, where it is Linux on 64 bits.
///
/// What the system maps is zero without being written, so that nothing is touched before its owner fills it, by as many
/// threads as it has; an arena would write every byte first, on one thread. And it may lie in pages of 2 MiB, which a
/// core looks up 512 times less often while it streams through weights: 5 to 10 % more of them in the same time.
final class Pages {
    /// Below this an arena serves as well.
    static final long LEAST = 1 << 20;

    private static final boolean SUPPORTED = System.getProperty("os.name").equals("Linux")
            && ValueLayout.ADDRESS.byteSize() == Long.BYTES;
    private static final int PROT_READ_WRITE = 3;
    private static final int MAP_PRIVATE_ANONYMOUS = 0x22;
    private static final int MADV_HUGEPAGE = 14;
    private static final long FAILED = -1;
    private static final long HUGE = 2 << 20;

    private static final ValueLayout.OfLong L = ValueLayout.JAVA_LONG;
    private static final ValueLayout.OfInt I = ValueLayout.JAVA_INT;
    private static final @Nullable MethodHandle MMAP = handle("mmap", FunctionDescriptor.of(L, L, L, I, I, I, L));
    private static final @Nullable MethodHandle MUNMAP = handle("munmap", FunctionDescriptor.of(I, L, L));
    private static final @Nullable MethodHandle MADVISE = handle("madvise", FunctionDescriptor.of(I, L, L, I));

    private Pages() {}

    @SuppressWarnings("restricted")
    private static @Nullable MethodHandle handle(String name, FunctionDescriptor descriptor) {
        if (!SUPPORTED) {
            return null;
        }
        Linker linker = Linker.nativeLinker();
        SymbolLookup lookup = linker.defaultLookup();
        return lookup.find(name)
                .map(symbol -> linker.downcallHandle(symbol, descriptor))
                .orElse(null);
    }

    /// Zeroed memory until the arena closes, at a multiple of 64 bytes; null if the system does not give it.
    ///
    /// @param dense whether all of it will be used soon: then it may lie in large pages
    @SuppressWarnings("restricted")
    static @Nullable MemorySegment map(Arena arena, long bytes, boolean dense) {
        if (MMAP == null || MUNMAP == null || MADVISE == null || bytes < LEAST) {
            return null;
        }
        // Room to begin at a large page; what is not touched costs nothing.
        long mapped = bytes + HUGE;
        try {
            long at = (long) MMAP.invokeExact(0L, mapped, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0L);
            if (at == FAILED) {
                return null;
            }
            long start = dense ? (at + HUGE - 1) & -HUGE : at;
            if (dense) {
                // Advice only: a system that has no large pages left, or is told not to give them, goes on with small.
                int ignored = (int) MADVISE.invokeExact(start, bytes, MADV_HUGEPAGE);
            }
            return MemorySegment.ofAddress(start).reinterpret(bytes, arena, segment -> unmap(at, mapped));
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("mmap", e);
        }
    }

    private static void unmap(long at, long bytes) {
        try {
            if (MUNMAP != null) {
                int ignored = (int) MUNMAP.invokeExact(at, bytes);
            }
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("munmap", e);
        }
    }
}

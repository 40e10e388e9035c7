package millrace.engine.kernel.ffi;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// The segments around the arrays that are passed down, so that a call need not make one.
///
/// A compiler may find that a segment does not outlive its call and not make it, but it does not promise to; a step
/// that allocates nothing cannot rest on that. Arrays are few and live as long as the engine.
///
/// Threads share the table without locks: an entry is immutable, and one that is lost is made again.
final class Segments {
    private static final int SLOTS = 256;
    private static final int PROBES = 8;

    private final @Nullable Entry[] entries = new Entry[SLOTS];

    private record Entry(Object array, MemorySegment segment) {}

    MemorySegment of(float[] array) {
        MemorySegment known = find(array);
        return known != null ? known : add(array, MemorySegment.ofArray(array));
    }

    MemorySegment of(int[] array) {
        MemorySegment known = find(array);
        return known != null ? known : add(array, MemorySegment.ofArray(array));
    }

    private @Nullable MemorySegment find(Object array) {
        int home = System.identityHashCode(array);
        for (int i = 0; i < PROBES; i++) {
            Entry entry = entries[home + i & SLOTS - 1];
            if (entry != null && entry.array == array) {
                return entry.segment;
            }
        }
        return null;
    }

    private MemorySegment add(Object array, MemorySegment segment) {
        int home = System.identityHashCode(array);
        int free = home;
        for (int i = PROBES - 1; i >= 0; i--) {
            if (entries[home + i & SLOTS - 1] == null) {
                free = home + i;
            }
        }
        entries[free & SLOTS - 1] = new Entry(array, segment);
        return segment;
    }
}

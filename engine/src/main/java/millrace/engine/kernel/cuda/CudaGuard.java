package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.IdentityHashMap;
import java.util.Map;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;

/// Whether rows of logits can be, and which of each row is the largest, guard.cu: 16 bytes for 4096 logits come to the host.
final class CudaGuard {
    /// As in guard.cu: logits of a part, and words that are known of it.
    private static final int PART = 4096;
    private static final int WORDS = 4;

    private static final int THREADS = 256;
    private static final int SHARED = WORDS * Integer.BYTES * THREADS / 32;
    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

    private final Gpu gpu;
    private final Kernel kernel;
    private final Map<RowFacts, Parts> known = new IdentityHashMap<>();

    /// What is known of the parts of rows, on the device and on its way.
    private record Parts(MemorySegment pinned, long address, Copy copy, int perRow) {}

    CudaGuard(Gpu gpu) {
        this.gpu = gpu;
        kernel = gpu.kernel("guard_logits");
    }

    /// Room for what will be known of rows.
    RowFacts allocate(int maxRows, int width) {
        var facts = new RowFacts(maxRows, width);
        int perRow = Math.ceilDiv(width, PART);
        MemorySegment pinned = gpu.pinned((long) WORDS * Integer.BYTES * perRow * maxRows);
        long address = gpu.allocate(pinned.byteSize(), "the guard of logits");
        known.put(facts, new Parts(pinned, address, gpu.copy(pinned, address), perRow));
        return facts;
    }

    private Parts parts(RowFacts facts, int rows) {
        Parts parts = known.get(facts);
        if (parts == null) {
            throw new IllegalArgumentException("guard: expected facts of this backend, got others");
        }
        if (rows < 0 || rows > facts.maxRows()) {
            throw new IllegalArgumentException("guard: expected at most " + facts.maxRows() + " rows, got " + rows);
        }
        return parts;
    }

    /// Looks at rows.
    ///
    /// @param live device address of how many of the rows there are, 0 for all
    void inspect(RowFacts facts, Rows x, int rows, long live) {
        Parts parts = parts(facts, rows);
        if (x.width() != facts.width() || rows > x.capacity()) {
            throw new IllegalArgumentException("guard: %d rows of %d numbers, for rows of %d and at most %d"
                    .formatted(rows, x.width(), facts.width(), x.capacity()));
        }
        if (rows > 0) {
            Launch launch = gpu.launch(kernel);
            launch.ptr(parts.address).ptr(x.addressAt(0)).i32(x.stride()).i32(x.width()).i32(rows).ptr(live);
            launch.run(parts.perRow, rows, 1, THREADS, SHARED);
        }
    }

    /// Brings what is known of the first rows to the host; waits for that.
    void fetch(RowFacts facts, int rows) {
        queueFetch(facts, rows);
        gpu.synchronize();
        take(facts, rows);
    }

    /// Queues the copy of what is known of the first rows, for [#take].
    void queueFetch(RowFacts facts, int rows) {
        Parts parts = parts(facts, rows);
        parts.copy.fetch((long) WORDS * Integer.BYTES * parts.perRow * rows);
    }

    /// Takes what has arrived.
    void take(RowFacts facts, int rows) {
        Parts parts = parts(facts, rows);
        long at = 0;
        for (int row = 0; row < rows; row++) {
            facts.clear(row);
            for (int part = 0; part < parts.perRow; part++, at += WORDS) {
                facts.add(
                        row,
                        parts.pinned.getAtIndex(INT, at),
                        parts.pinned.getAtIndex(INT, at + 1),
                        parts.pinned.getAtIndex(INT, at + 3),
                        parts.pinned.getAtIndex(INT, at + 2));
            }
        }
    }
}

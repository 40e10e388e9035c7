package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.zip.CRC32C;
import millrace.engine.format.CrcShift;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;

/// Whether rows of logits can be, which of each row is the largest, and its digest, guard.cu: 20 bytes for 4096 logits come to the
/// host.
final class CudaGuard {
    /// As in guard.cu: logits of a part, and words that are known of it.
    private static final int PART = 4096;
    private static final int WORDS = 4;

    private static final int THREADS = 256;
    private static final int SHARED = (WORDS + 1) * Integer.BYTES * THREADS / 32;

    /// Tables of guard_step, and powers behind them.
    private static final int BYTE_TABLES = 4;
    private static final int TABLE = 256;

    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;

    private final Gpu gpu;
    private final Kernel kernel;
    private final long tables;
    private final Map<RowFacts, Parts> known = new IdentityHashMap<>();

    /// What is known of the parts of rows, on the device and on its way: facts, and sums.
    private record Parts(
            MemorySegment pinned, long address, Copy copy, MemorySegment sums, long sumsAddress, Copy copySums, int perRow,
            Digest whole, Digest last) {}

    /// Makes a CRC-32C of a part's polynomial, and joins it to what comes before.
    private static final class Digest {
        private final CrcShift shift;
        private final int ofZeros;

        Digest(int floats) {
            long bytes = (long) Float.BYTES * floats;
            shift = new CrcShift(bytes);
            // What the first and the last inversion make of nothing but zeros.
            var crc = new CRC32C();
            crc.update(new byte[(int) bytes]);
            ofZeros = (int) crc.getValue();
        }

        int join(int before, int polynomial) {
            return shift.join(before, polynomial ^ ofZeros);
        }
    }

    CudaGuard(Gpu gpu) {
        this.gpu = gpu;
        kernel = gpu.kernel("guard_logits");
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment words = arena.allocateFrom(INT, tables());
            tables = gpu.allocate(words.byteSize(), "the guard of logits");
            gpu.upload(tables, words);
        }
    }

    private static int[] tables() {
        int[] words = new int[(BYTE_TABLES + 1) * TABLE];
        var step = new CrcShift((long) Float.BYTES * THREADS);
        for (int i = 0; i < BYTE_TABLES * TABLE; i++) {
            words[i] = step.append(i % TABLE << Byte.SIZE * (i / TABLE));
        }
        for (int i = 0; i < TABLE; i++) {
            words[BYTE_TABLES * TABLE + i] = new CrcShift((long) Float.BYTES * (i + 1)).append(1 << 31);
        }
        return words;
    }

    /// Room for what will be known of rows.
    RowFacts allocate(int maxRows, int width) {
        var facts = new RowFacts(maxRows, width);
        int perRow = Math.ceilDiv(width, PART);
        MemorySegment pinned = gpu.pinned((long) WORDS * Integer.BYTES * perRow * maxRows);
        long address = gpu.allocate(pinned.byteSize(), "the guard of logits");
        MemorySegment sums = gpu.pinned((long) Integer.BYTES * perRow * maxRows);
        long sumsAddress = gpu.allocate(sums.byteSize(), "the guard of logits");
        known.put(facts, new Parts(pinned, address, gpu.copy(pinned, address), sums, sumsAddress, gpu.copy(sums, sumsAddress),
                perRow, new Digest(PART), new Digest(width - PART * (perRow - 1))));
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
            launch.ptr(parts.address).ptr(parts.sumsAddress).ptr(tables).ptr(x.addressAt(0)).i32(x.stride()).i32(x.width()).i32(rows).ptr(live);
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
        parts.copySums.fetch((long) Integer.BYTES * parts.perRow * rows);
    }

    /// Takes what has arrived.
    void take(RowFacts facts, int rows) {
        Parts parts = parts(facts, rows);
        long at = 0;
        for (int row = 0; row < rows; row++) {
            facts.clear(row);
            int checksum = 0;
            for (int part = 0; part < parts.perRow; part++, at += WORDS) {
                facts.add(
                        row,
                        parts.pinned.getAtIndex(INT, at),
                        parts.pinned.getAtIndex(INT, at + 1),
                        parts.pinned.getAtIndex(INT, at + 3),
                        parts.pinned.getAtIndex(INT, at + 2));
                Digest digest = part == parts.perRow - 1 ? parts.last : parts.whole;
                checksum = digest.join(checksum, parts.sums.getAtIndex(INT, at / WORDS));
            }
            facts.checksum(row, checksum);
        }
    }
}

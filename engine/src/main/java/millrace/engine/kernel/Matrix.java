package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.function.IntConsumer;
import java.util.zip.CRC32C;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Bf16Panel;
import millrace.engine.format.F32Panel;
import millrace.engine.format.Fp8Panel;
import millrace.engine.format.Int4Panel;
import millrace.engine.format.Int8Panel;
import millrace.engine.format.PackedPanel;
import millrace.engine.format.Panels;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import org.jspecify.annotations.Nullable;

/// A weight matrix `[rows][cols]`, repacked into panels of 16 rows.
///
/// Lane `l` of panel `p` is row `16 p + l`; [WeightFormat] names how a panel lies in memory. With lane = row a matrix
/// product needs no horizontal sum, so every output is one chain of additions, whatever the batch; and one layout
/// serves single tokens and long prompts.
///
/// Panels have one size, or, in [WeightFormat#PACKED], each its own: then some may be *raw*, which is BF16.
public final class Matrix {
    /// Rows of a panel.
    public static final int PANEL_ROWS = WeightFormat.PANEL_ROWS;

    /// Bytes of a table of exponents in a file.
    private static final int TABLE_BYTES = 16;

    private final WeightFormat format;
    private final int rows;
    private final int cols;
    private final MemorySegment data;
    private final long base;
    private final long panelBytes;
    private final long @Nullable [] offsets;
    private final boolean @Nullable [] raw;
    private final int @Nullable [] numbers;

    private Matrix(
            WeightFormat format,
            int rows,
            int cols,
            MemorySegment data,
            long @Nullable [] offsets,
            boolean @Nullable [] raw,
            int @Nullable [] numbers) {
        this.format = format;
        this.rows = rows;
        this.cols = cols;
        this.data = data;
        this.offsets = offsets;
        this.raw = raw;
        this.numbers = numbers;
        panelBytes = format.panelBytes(cols);
        base = data.address();
    }

    /// A matrix whose panels have one size and stand one after another.
    ///
    /// @param format any but PACKED
    /// @param data the panels, 64-byte aligned
    public static Matrix of(WeightFormat format, int rows, int cols, MemorySegment data) {
        if (rows < 1 || cols < 1 || format == WeightFormat.PACKED) {
            throw new IllegalArgumentException("matrix: %d × %d in %s without offsets".formatted(rows, cols, format));
        }
        long bytes = WeightFormat.panels(rows) * format.panelBytes(cols);
        if (data.byteSize() != bytes) {
            throw new IllegalArgumentException("matrix: %d × %d in %s needs %d bytes, got %d"
                    .formatted(rows, cols, format, bytes, data.byteSize()));
        }
        requireAligned(data);
        return new Matrix(format, rows, cols, data, null, null, null);
    }

    /// A PACKED matrix. Panels from elsewhere must have passed [PackedPanel#problem]: kernels trust them.
    ///
    /// @param data the panels, 64-byte aligned
    /// @param offsets where each panel begins in `data`, ascending multiples of 64; and one more, where the last ends
    /// @param raw whether a panel is a BF16 one
    public static Matrix of(
            WeightFormat format, int rows, int cols, MemorySegment data, long[] offsets, boolean[] raw) {
        return packed(format, rows, cols, data, offsets, raw, null);
    }

    private static Matrix packed(
            WeightFormat format,
            int rows,
            int cols,
            MemorySegment data,
            long[] offsets,
            boolean[] raw,
            int @Nullable [] numbers) {
        int panels = WeightFormat.panels(rows);
        if (rows < 1
                || cols < 1
                || format != WeightFormat.PACKED
                || offsets.length != panels + 1
                || raw.length != panels
                || offsets[0] != 0
                || offsets[panels] != data.byteSize()) {
            throw new IllegalArgumentException("matrix: %d × %d in %s, %d offsets and %d flags for %d panels, %d bytes"
                    .formatted(rows, cols, format, offsets.length, raw.length, panels, data.byteSize()));
        }
        for (int p = 0; p < panels; p++) {
            long bytes = offsets[p + 1] - offsets[p];
            if (offsets[p] % Memory.ALIGNMENT != 0
                    || (raw[p] ? bytes != Bf16Panel.bytes(cols) : bytes < PackedPanel.bytes(cols, 0))) {
                throw new IllegalArgumentException("matrix: panel %d of %d columns at %d has %d bytes, raw: %s"
                        .formatted(p, cols, offsets[p], bytes, raw[p]));
            }
        }
        requireAligned(data);
        return new Matrix(format, rows, cols, data, offsets.clone(), raw.clone(), numbers);
    }

    private static void requireAligned(MemorySegment data) {
        if (data.address() % Memory.ALIGNMENT != 0) {
            throw new IllegalArgumentException("matrix: address is not a multiple of " + Memory.ALIGNMENT);
        }
    }

    /// Where the numbers of a matrix come from: element `(r, c)` is number `first + r · rowStride + c · colStride`.
    ///
    /// @param dtype BF16, F16 or F32, little-endian
    public record Source(
            DType dtype, MemorySegment data, int rows, int cols, long first, long rowStride, long colStride) {
        public Source {
            long last = first + (rows - 1) * rowStride + (cols - 1) * colStride;
            if (rows < 1 || cols < 1 || first < 0 || (last + 1) * dtype.bytes() > data.byteSize()) {
                throw new IllegalArgumentException("matrix source: %d × %d from %d, last %d, in %d bytes of %s"
                        .formatted(rows, cols, first, last, data.byteSize(), dtype));
            }
            if (dtype != DType.BF16 && dtype != DType.F16 && dtype != DType.F32) {
                throw new IllegalArgumentException("matrix source: cannot compute with " + dtype);
            }
        }

        /// All of a row-major tensor.
        public static Source rowMajor(DType dtype, MemorySegment data, int rows, int cols) {
            return new Source(dtype, data, rows, cols, 0, cols, 1);
        }

        /// The format that keeps these numbers exactly: BF16 for BF16, F32 for the others.
        public WeightFormat format() {
            return dtype == DType.BF16 ? WeightFormat.BF16 : WeightFormat.F32;
        }

        /// The format that a request for `target` gets: BF16 and PACKED lose nothing, so that what was not published
        /// in BF16 stays in F32.
        public WeightFormat format(WeightFormat target) {
            boolean halves = target == WeightFormat.BF16 || target == WeightFormat.PACKED;
            return halves && dtype != DType.BF16 ? WeightFormat.F32 : target;
        }

        private int panelRows(int panel) {
            return Math.min(PANEL_ROWS, rows - panel * PANEL_ROWS);
        }

        private short[] halves(int panel) {
            short[] values = new short[panelRows(panel) * cols];
            if (colStride == 1) {
                for (int r = 0; r < panelRows(panel); r++) {
                    long at = 2 * (first + ((long) panel * PANEL_ROWS + r) * rowStride);
                    Words.halves(data, at, values, r * cols, cols);
                }
                return values;
            }
            int i = 0;
            for (int r = 0; r < panelRows(panel); r++) {
                long at = 2 * (first + ((long) panel * PANEL_ROWS + r) * rowStride);
                for (int c = 0; c < cols; c++) {
                    values[i++] = Words.half(data, at + 2 * c * colStride);
                }
            }
            return values;
        }

        private float[] floats(int panel) {
            float[] values = new float[panelRows(panel) * cols];
            if (dtype == DType.BF16) {
                short[] halves = halves(panel);
                for (int i = 0; i < values.length; i++) {
                    values[i] = BFloat16.toFloat(halves[i]);
                }
                return values;
            }
            int i = 0;
            for (int r = 0; r < panelRows(panel); r++) {
                for (int c = 0; c < cols; c++) {
                    values[i++] = value((long) panel * PANEL_ROWS + r, c);
                }
            }
            return values;
        }

        /// Element `(row, col)`, exactly.
        public float number(int row, int col) {
            return value(row, col);
        }

        private float value(long row, long col) {
            long i = first + row * rowStride + col * colStride;
            return switch (dtype) {
                case BF16 -> BFloat16.toFloat(Words.half(data, 2 * i));
                case F16 -> Float.float16ToFloat(Words.half(data, 2 * i));
                default -> Words.real(data, 4 * i);
            };
        }
    }

    /// Runs a task for each of `0 … count − 1`, in any order, perhaps at once; returns when all are done.
    @FunctionalInterface
    public interface Each {
        void run(int count, IntConsumer task);
    }

    /// Packs a source into memory of the arena, in the format that [Source#format(WeightFormat)] gives for `target`.
    ///
    /// @throws IllegalArgumentException if a grouped format meets a number that is not finite
    public static Matrix pack(Arena arena, Source source, WeightFormat target, Each each) {
        WeightFormat format = source.format(target);
        if (format == WeightFormat.PACKED) {
            return packHalves(arena, source, each);
        }
        Matrix matrix = allocate(arena, format, source.rows, source.cols);
        each.run(matrix.panels(), panel -> matrix.fill(source, panel));
        return matrix;
    }

    /// In passes, the last of which writes each panel where it stays. All panels have one table if that costs fewer
    /// bytes in a file, where a common table stands once; in memory each panel carries its own copy.
    private static Matrix packHalves(Arena arena, Source source, Each each) {
        int panels = WeightFormat.panels(source.rows);
        int cols = source.cols;
        int[][] tables = new int[panels][];
        long[] own = new long[panels];
        long[][] counts = new long[panels][256];
        int[] numbers = new int[panels];
        each.run(panels, p -> {
            short[] values = source.halves(p);
            numbers[p] = checksum(values, values.length);
            PackedPanel.count(values, source.panelRows(p), cols, counts[p]);
            tables[p] = PackedPanel.table(counts[p].clone());
            own[p] = PackedPanel.escapes(values, source.panelRows(p), cols, tables[p]);
        });
        int[] common = PackedPanel.table(sum(counts));
        long[] shared = new long[panels];
        each.run(panels, p -> shared[p] = PackedPanel.escapes(source.halves(p), source.panelRows(p), cols, common));
        boolean one = Arrays.stream(shared).sum() <= Arrays.stream(own).sum() + TABLE_BYTES * (panels - 1L);
        boolean[] raw = new boolean[panels];
        long[] offsets = new long[panels + 1];
        for (int p = 0; p < panels; p++) {
            long size = PackedPanel.size(source.panelRows(p), cols, one ? shared[p] : own[p]);
            raw[p] = size < 0;
            offsets[p + 1] = offsets[p] + (raw[p] ? Bf16Panel.bytes(cols) : size);
        }
        MemorySegment data = Memory.allocateDense(arena, offsets[panels], "the weights");
        each.run(panels, p -> {
            if (raw[p]) {
                Bf16Panel.encode(source.halves(p), source.panelRows(p), cols, data, offsets[p]);
            } else {
                int[] table = one ? common : tables[p];
                PackedPanel.encode(source.halves(p), source.panelRows(p), cols, table, data, offsets[p]);
            }
        });
        return packed(WeightFormat.PACKED, source.rows, cols, data, offsets, raw, numbers);
    }

    private static int checksum(short[] values, int count) {
        ByteBuffer bytes = ByteBuffer.allocate(Short.BYTES * count).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asShortBuffer().put(values, 0, count);
        CRC32C crc = new CRC32C();
        crc.update(bytes.array());
        return (int) crc.getValue();
    }

    private static long[] sum(long[][] counts) {
        long[] sum = new long[256];
        for (long[] some : counts) {
            for (int e = 0; e < sum.length; e++) {
                sum[e] += some[e];
            }
        }
        return sum;
    }

    /// A matrix of zeros that [#fill] writes, in any format but PACKED.
    public static Matrix allocate(Arena arena, WeightFormat format, int rows, int cols) {
        long bytes = WeightFormat.panels(rows) * format.panelBytes(cols);
        return of(format, rows, cols, Memory.allocateDense(arena, bytes, "the weights"));
    }

    /// Writes one panel from its source. F32 takes any source, BF16 one in BF16; the others round.
    public void fill(Source source, int panel) {
        int n = source.panelRows(panel);
        long at = panelOffset(panel);
        switch (format) {
            case F32 -> F32Panel.encode(source.floats(panel), n, cols, data, at);
            case BF16 -> Bf16Panel.encode(source.halves(panel), n, cols, data, at);
            case INT8 -> Int8Panel.quantize(source.floats(panel), n, cols, data, at);
            case INT4 -> Int4Panel.quantize(source.floats(panel), n, cols, data, at);
            case FP8 -> Fp8Panel.quantize(source.floats(panel), n, cols, data, at);
            case PACKED -> throw new IllegalStateException("matrix: packed panels are written by pack");
        }
    }

    public WeightFormat format() {
        return format;
    }

    public int rows() {
        return rows;
    }

    public int cols() {
        return cols;
    }

    /// The panels, one after another.
    public MemorySegment data() {
        return data;
    }

    public int panels() {
        return WeightFormat.panels(rows);
    }

    /// Whether a panel of a PACKED matrix is in BF16.
    public boolean rawPanel(int panel) {
        return raw != null && raw[panel];
    }

    /// The format of one panel: the matrix's, but BF16 for raw ones.
    public WeightFormat panelFormat(int panel) {
        return rawPanel(panel) ? WeightFormat.BF16 : format;
    }

    public long panelBytes(int panel) {
        return offsets == null ? panelBytes : offsets[panel + 1] - offsets[panel];
    }

    /// Where a panel begins in [#data].
    public long panelOffset(int panel) {
        assert panel >= 0 && panel < panels() : panel;
        return offsets == null ? panel * panelBytes : offsets[panel];
    }

    /// Whether each panel's numbers have a checksum from before they were packed.
    public boolean hasNumbersChecksums() {
        return numbers != null;
    }

    /// CRC-32C of a panel's numbers as they were before they were packed: BF16, little-endian, row by row, rows that
    /// the matrix has.
    public int numbersChecksum(int panel) {
        if (numbers == null) {
            throw new IllegalStateException("matrix: numbers had no checksums when " + this + " was made");
        }
        return numbers[panel];
    }

    /// The same of the numbers that a PACKED panel decodes to now.
    public int decodedChecksum(int panel) {
        int n = Math.min(PANEL_ROWS, rows - panel * PANEL_ROWS);
        short[] values = new short[n * cols];
        if (rawPanel(panel)) {
            Bf16Panel.decode(data, panelOffset(panel), n, cols, values);
        } else {
            PackedPanel.decode(data, panelOffset(panel), panelBytes(panel), n, cols, values);
        }
        return checksum(values, values.length);
    }

    /// Where each panel of a PACKED matrix begins, and one more, where the last ends.
    public long[] panelOffsets() {
        return requirePacked(offsets).clone();
    }

    /// Which panels of a PACKED matrix are raw.
    public boolean[] rawPanels() {
        return requirePacked(raw).clone();
    }

    /// Puts both in again, as they were: kernels trust them.
    public void restorePanels(long[] panelOffsets, boolean[] rawPanels) {
        System.arraycopy(panelOffsets, 0, requirePacked(offsets), 0, panelOffsets.length);
        System.arraycopy(rawPanels, 0, requirePacked(raw), 0, rawPanels.length);
    }

    private <T> T requirePacked(@Nullable T array) {
        if (array == null) {
            throw new IllegalStateException("matrix: the panels of " + this + " have one size");
        }
        return array;
    }

    /// Absolute address of a panel.
    public long panelAddress(int panel) {
        return base + panelOffset(panel);
    }

    /// Copies one row as F32: the embedding of a token. In grouped formats `code · scale`, rounded once.
    public void row(int row, float[] out, int offset) {
        if (row < 0 || row >= rows) {
            throw new IndexOutOfBoundsException("row " + row + " of " + rows);
        }
        int panel = row / PANEL_ROWS;
        Panels.weights(panelFormat(panel), data, panelOffset(panel), cols, row % PANEL_ROWS, out, offset);
    }

    @Override
    public String toString() {
        return "%d × %d %s".formatted(rows, cols, format.id());
    }
}

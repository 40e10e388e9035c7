package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/// A weight matrix `[rows][cols]`, repacked into panels of 16 rows.
///
/// Panel `p` is a tile of `depth = cols` and 16 lanes, see [TileFormat]: lane `l` is row `16 p + l`. Rows and columns
/// that pad the last panel and the last word are zero. With lane = row a matrix product needs no horizontal sum, so
/// every output is one chain of additions, whatever the batch; and one layout serves single tokens and long prompts.
///
/// @param format F32 or BF16
/// @param data the panels, one after another, 64-byte aligned
public record Matrix(TileFormat format, int rows, int cols, MemorySegment data) {
    /// Rows of a panel.
    public static final int PANEL_ROWS = 16;

    private static final ValueLayout.OfInt WORD =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfShort HALF =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    public Matrix {
        long bytes = (long) panels(rows) * format.bytes(cols, PANEL_ROWS);
        if (rows < 1 || cols < 1 || format == TileFormat.INT8 || data.byteSize() != bytes) {
            throw new IllegalArgumentException("matrix: %d × %d in %s needs %d bytes, got %d"
                    .formatted(rows, cols, format, bytes, data.byteSize()));
        }
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
        public TileFormat format() {
            return dtype == DType.BF16 ? TileFormat.BF16 : TileFormat.F32;
        }

        private float value(long row, long col) {
            long i = first + row * rowStride + col * colStride;
            return switch (dtype) {
                case BF16 -> BFloat16.toFloat(data.get(HALF, 2 * i));
                case F16 -> Float.float16ToFloat(data.get(HALF, 2 * i));
                default -> Float.intBitsToFloat(data.get(WORD, 4 * i));
            };
        }
    }

    /// A matrix of zeros that [#fill] writes.
    public static Matrix allocate(Arena arena, TileFormat format, int rows, int cols) {
        long bytes = (long) panels(rows) * format.bytes(cols, PANEL_ROWS);
        return new Matrix(format, rows, cols, Memory.allocate(arena, bytes, "the weights"));
    }

    /// Panels that so many rows need.
    public static int panels(int rows) {
        return (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    }

    public int panels() {
        return panels(rows);
    }

    public long panelBytes() {
        return format.bytes(cols, PANEL_ROWS);
    }

    /// Absolute address of a panel.
    public long panelAddress(int panel) {
        assert panel >= 0 && panel < panels() : panel;
        return data.address() + panel * panelBytes();
    }

    /// Writes one panel from its source; the source's format must be this matrix's.
    public void fill(Source source, int panel) {
        int from = panel * PANEL_ROWS;
        int to = Math.min(rows, from + PANEL_ROWS);
        long base = panel * panelBytes();
        for (int row = from; row < to; row++) {
            long lane = base + 4L * (row - from);
            if (format == TileFormat.F32) {
                for (int c = 0; c < cols; c++) {
                    data.set(WORD, lane + 64L * c, Float.floatToRawIntBits(source.value(row, c)));
                }
            } else {
                fillHalves(source, row, lane);
            }
        }
    }

    private void fillHalves(Source source, int row, long lane) {
        MemorySegment from = source.data;
        long start = 2 * (source.first + row * source.rowStride);
        long step = 2 * source.colStride;
        for (int c = 0; c < cols; c += 2) {
            int low = from.get(HALF, start + c * step) & 0xFFFF;
            int high = c + 1 < cols ? from.get(HALF, start + (c + 1) * step) : 0;
            data.set(WORD, lane + 32L * c, high << 16 | low);
        }
    }

    /// Copies one row as F32: the embedding of a token.
    public void row(int row, float[] out, int offset) {
        if (row < 0 || row >= rows) {
            throw new IndexOutOfBoundsException("row " + row + " of " + rows);
        }
        long lane = row / PANEL_ROWS * panelBytes() + 4L * (row % PANEL_ROWS);
        if (format == TileFormat.F32) {
            for (int c = 0; c < cols; c++) {
                out[offset + c] = Float.intBitsToFloat(data.get(WORD, lane + 64L * c));
            }
        } else {
            for (int c = 0; c < cols; c++) {
                out[offset + c] = BFloat16.toFloat(data.get(HALF, lane + 64L * (c >> 1) + 2 * (c & 1)));
            }
        }
    }
}

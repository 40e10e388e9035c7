package millrace.engine.format;

import java.lang.foreign.MemorySegment;

/// A panel of signed 8-bit codes with a BF16 scale for each row and 32 columns.
///
/// ```
///  blocks of 64 columns, 1088 bytes each:
///    64 bytes     scales: 16 lanes of the first group, 16 of the second
///    1024 bytes   16 × 16 words: byte i of word (j, lane) is the code of column 4 j + i
/// ```
///
/// Missing rows and columns have code 0, groups without a column scale 0.
public final class Int8Panel {
    /// Columns that share a scale.
    public static final int GROUP = 32;
    /// Columns of a block.
    public static final int BLOCK = 64;
    /// Bytes of a block.
    public static final int BLOCK_BYTES = 1088;

    private Int8Panel() {}

    public static long bytes(int cols) {
        return (long) (cols + BLOCK - 1) / BLOCK * BLOCK_BYTES;
    }

    /// @param codes row by row, `cols` each
    /// @param scales BF16, row by row, `⌈cols / 32⌉` each
    /// @param rows 1 to 16
    public static void encode(byte[] codes, short[] scales, int rows, int cols, MemorySegment out, long at) {
        out.asSlice(at, bytes(cols)).fill((byte) 0);
        int groups = WeightFormat.INT8.groups(cols);
        for (int lane = 0; lane < rows; lane++) {
            for (int g = 0; g < groups; g++) {
                Words.half(out, Scales.at(at, BLOCK_BYTES, lane, g), scales[lane * groups + g]);
            }
            for (int k = 0; k < cols; k++) {
                Words.octet(out, codeAt(at, lane, k), codes[lane * cols + k]);
            }
        }
    }

    /// Writes the nearest codes. A scale is the largest magnitude of its group by 127, rounded up to BF16, so that no
    /// code exceeds 127.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    /// @throws IllegalArgumentException if a value is not finite
    public static void quantize(float[] values, int rows, int cols, MemorySegment out, long at) {
        int groups = WeightFormat.INT8.groups(cols);
        byte[] codes = new byte[rows * cols];
        short[] scales = new short[rows * groups];
        for (int lane = 0; lane < rows; lane++) {
            for (int g = 0; g < groups; g++) {
                int from = lane * cols + g * GROUP;
                int to = Math.min(lane * cols + cols, from + GROUP);
                double largest = Scales.largest(values, from, to, lane * cols);
                short scale = Scales.up(largest / 127);
                scales[lane * groups + g] = scale;
                double worth = BFloat16.toFloat(scale);
                for (int i = from; i < to && worth > 0; i++) {
                    codes[i] = (byte) Math.clamp((long) Math.rint(values[i] / worth), -127, 127);
                }
            }
        }
        encode(codes, scales, rows, cols, out, at);
    }

    /// The codes of one row.
    static void row(MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        for (int k = 0; k < cols; k++) {
            out[offset + k] = Words.octet(data, codeAt(at, lane, k));
        }
    }

    static float scale(MemorySegment data, long at, int lane, int group) {
        return BFloat16.toFloat(Words.half(data, Scales.at(at, BLOCK_BYTES, lane, group)));
    }

    private static long codeAt(long at, int lane, int k) {
        return at + (long) (k / BLOCK) * BLOCK_BYTES + 64 + k % BLOCK / 4 * 64 + 4 * lane + k % 4;
    }
}

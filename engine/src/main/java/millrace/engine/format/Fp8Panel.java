package millrace.engine.format;

import java.lang.foreign.MemorySegment;

/// A panel of e4m3fn codes ([Float8]) with an F32 scale for each row and 128 columns.
///
/// ```
///  blocks of 128 columns, 2112 bytes each:
///    64 bytes     scales: 16 lanes
///    2048 bytes   32 × 16 words: byte i of word (j, lane) is the code of column 4 j + i
/// ```
///
/// A scale for a whole row stands in each of its blocks; a scale for 128 × 128 weights in all lanes. Missing rows and
/// columns have code 0. Codes of NaN are not allowed.
public final class Fp8Panel {
    /// Columns that share a scale, and that a block has.
    public static final int GROUP = 128;
    /// Bytes of a block.
    public static final int BLOCK_BYTES = 2112;

    private Fp8Panel() {}

    public static long bytes(int cols) {
        return (long) (cols + GROUP - 1) / GROUP * BLOCK_BYTES;
    }

    /// @param codes row by row, `cols` each
    /// @param scales row by row, `⌈cols / 128⌉` each
    /// @param rows 1 to 16
    /// @throws IllegalArgumentException if a code is NaN or a scale is not finite
    public static void encode(byte[] codes, float[] scales, int rows, int cols, MemorySegment out, long at) {
        out.asSlice(at, bytes(cols)).fill((byte) 0);
        int groups = WeightFormat.FP8.groups(cols);
        for (int lane = 0; lane < rows; lane++) {
            for (int g = 0; g < groups; g++) {
                float scale = scales[lane * groups + g];
                if (!Float.isFinite(scale)) {
                    throw new ScaleException(
                            "column " + g * GROUP + ": expected a finite scale, got " + scale);
                }
                Words.real(out, scaleAt(at, lane, g), scale);
            }
            for (int k = 0; k < cols; k++) {
                byte code = codes[lane * cols + k];
                if (Float8.isNaN(code)) {
                    throw new IllegalArgumentException(
                            "column %d: expected a number, got the FP8 NaN 0x%02X".formatted(k, code));
                }
                Words.octet(out, codeAt(at, lane, k), code);
            }
        }
    }

    /// Writes the nearest codes. A scale is the largest magnitude of its group by 448.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    /// @throws IllegalArgumentException if a value is not finite
    public static void quantize(float[] values, int rows, int cols, MemorySegment out, long at) {
        int groups = WeightFormat.FP8.groups(cols);
        byte[] codes = new byte[rows * cols];
        float[] scales = new float[rows * groups];
        for (int lane = 0; lane < rows; lane++) {
            for (int g = 0; g < groups; g++) {
                int from = lane * cols + g * GROUP;
                int to = Math.min(lane * cols + cols, from + GROUP);
                float scale = (float) (Scales.largest(values, from, to, lane * cols) / Float8.MAX);
                scales[lane * groups + g] = scale;
                for (int i = from; i < to && scale > 0; i++) {
                    codes[i] = Float8.fromFloat((float) ((double) values[i] / scale));
                }
            }
        }
        encode(codes, scales, rows, cols, out, at);
    }

    /// The values of the codes of one row.
    static void row(MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        for (int k = 0; k < cols; k++) {
            out[offset + k] = Float8.toFloat(Words.octet(data, codeAt(at, lane, k)));
        }
    }

    static float scale(MemorySegment data, long at, int lane, int group) {
        return Words.real(data, scaleAt(at, lane, group));
    }

    private static long scaleAt(long at, int lane, int group) {
        return at + (long) group * BLOCK_BYTES + 4 * lane;
    }

    private static long codeAt(long at, int lane, int k) {
        return at + (long) (k / GROUP) * BLOCK_BYTES + 64 + k % GROUP / 4 * 64 + 4 * lane + k % 4;
    }
}

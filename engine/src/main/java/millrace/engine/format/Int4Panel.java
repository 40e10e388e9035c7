package millrace.engine.format;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;

/// A panel of signed 4-bit codes with a BF16 scale for each row and 32 columns.
///
/// ```
///  blocks of 64 columns, 576 bytes each:
///    64 bytes     scales: 16 lanes of the first group, 16 of the second
///    512 bytes    8 × 16 words: byte i of word (j, lane) is the code of column 8 j + i in its low half,
///                 of column 8 j + 4 + i in its high half; both plus 8
/// ```
///
/// Codes are −8 to 7. Missing rows and columns have code 0, groups without a column scale 0.
public final class Int4Panel {
    /// Columns that share a scale.
    public static final int GROUP = 32;
    /// Columns of a block.
    public static final int BLOCK = 64;
    /// Bytes of a block.
    public static final int BLOCK_BYTES = 576;
    private static final byte ZEROS = (byte) 0x88;
    // What the value of the largest magnitude is to be in codes. It may lie beyond the ends: to lose a little there
    // can gain more on the others. The sign of the scale is free, so that −8 serves values of either sign.
    private static final double[] LARGEST_CODES = {-8, -7.75, -7.5, -7.25, -7, -8.25, -8.5, -9, 7};

    private Int4Panel() {}

    public static long bytes(int cols) {
        return (long) (cols + BLOCK - 1) / BLOCK * BLOCK_BYTES;
    }

    /// @param codes −8 to 7, row by row, `cols` each
    /// @param scales BF16, row by row, `⌈cols / 32⌉` each
    /// @param rows 1 to 16
    public static void encode(byte[] codes, short[] scales, int rows, int cols, MemorySegment out, long at) {
        int groups = WeightFormat.INT4.groups(cols);
        for (long block = at; block < at + bytes(cols); block += BLOCK_BYTES) {
            out.asSlice(block, 64).fill((byte) 0);
            out.asSlice(block + 64, BLOCK_BYTES - 64).fill(ZEROS);
        }
        for (int lane = 0; lane < rows; lane++) {
            for (int g = 0; g < groups; g++) {
                Words.half(out, Scales.at(at, BLOCK_BYTES, lane, g), scales[lane * groups + g]);
            }
            for (int k = 0; k < cols; k++) {
                long octet = codeAt(at, lane, k);
                int shift = k / 4 % 2 * 4;
                int others = Words.octet(out, octet) & 0xF0 >> shift;
                Words.octet(out, octet, (byte) (others | (codes[lane * cols + k] + 8 & 15) << shift));
            }
        }
    }

    /// Writes codes and scales of the least squared error that a search over a few scales for each group finds.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    /// @throws IllegalArgumentException if a value is not finite
    public static void quantize(float[] values, int rows, int cols, MemorySegment out, long at) {
        int groups = WeightFormat.INT4.groups(cols);
        byte[] codes = new byte[rows * cols];
        short[] scales = new short[rows * groups];
        byte[] trial = new byte[GROUP];
        for (int lane = 0; lane < rows; lane++) {
            for (int g = 0; g < groups; g++) {
                int from = lane * cols + g * GROUP;
                int to = Math.min(lane * cols + cols, from + GROUP);
                double largest = Scales.largest(values, from, to, lane * cols);
                if (largest > 0) {
                    scales[lane * groups + g] = search(values, from, to, signed(values, from, to), trial, codes);
                }
            }
        }
        encode(codes, scales, rows, cols, out, at);
    }

    /// The first value of the largest magnitude.
    private static double signed(float[] values, int from, int to) {
        float largest = 0;
        for (int i = from; i < to; i++) {
            largest = Math.abs(values[i]) > Math.abs(largest) ? values[i] : largest;
        }
        return largest;
    }

    private static short search(float[] values, int from, int to, double largest, byte[] trial, byte[] codes) {
        double least = Double.POSITIVE_INFINITY;
        short best = 0;
        for (double code : LARGEST_CODES) {
            short scale = BFloat16.fromFloat((float) (largest / code));
            double worth = BFloat16.toFloat(scale);
            if (worth == 0) {
                continue;
            }
            double products = 0;
            double squares = 0;
            for (int i = from; i < to; i++) {
                int c = Math.clamp((long) Math.rint(values[i] / worth), -8, 7);
                trial[i - from] = (byte) c;
                products += (double) values[i] * c;
                squares += c * c;
            }
            // For these codes no scale is better than this one, but for its rounding.
            short refined = squares == 0 ? scale : BFloat16.fromFloat((float) (products / squares));
            for (short candidate : new short[] {scale, refined}) {
                double error = error(values, from, to, trial, BFloat16.toFloat(candidate));
                if (error < least) {
                    least = error;
                    best = candidate;
                    System.arraycopy(trial, 0, codes, from, to - from);
                }
            }
        }
        if (best == 0) {
            Arrays.fill(codes, from, to, (byte) 0);
        }
        return best;
    }

    private static double error(float[] values, int from, int to, byte[] codes, double scale) {
        double error = 0;
        for (int i = from; i < to; i++) {
            double difference = values[i] - codes[i - from] * scale;
            error += difference * difference;
        }
        return error;
    }

    /// The codes of one row.
    static void row(MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        for (int k = 0; k < cols; k++) {
            out[offset + k] = (Words.octet(data, codeAt(at, lane, k)) >>> k / 4 % 2 * 4 & 15) - 8;
        }
    }

    static float scale(MemorySegment data, long at, int lane, int group) {
        return BFloat16.toFloat(Words.half(data, Scales.at(at, BLOCK_BYTES, lane, group)));
    }

    private static long codeAt(long at, int lane, int k) {
        return at + (long) (k / BLOCK) * BLOCK_BYTES + 64 + k % BLOCK / 8 * 64 + 4 * lane + k % 4;
    }
}

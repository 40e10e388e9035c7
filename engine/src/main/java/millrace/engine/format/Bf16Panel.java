package millrace.engine.format;

import java.lang.foreign.MemorySegment;

/// A panel in BF16: `[⌈cols / 2⌉][16]` words of two columns, the even one in the low half. The partner of an odd last
/// column is zero.
public final class Bf16Panel {
    /// Words of each lane that are turned at once: few enough to stay in the innermost cache.
    private static final int PIECE = 64;

    private Bf16Panel() {}

    public static long bytes(int cols) {
        return 64L * ((cols + 1) / 2);
    }

    /// @param values row by row, `cols` each
    /// @param rows 1 to 16; missing ones become zero
    public static void encode(short[] values, int rows, int cols, MemorySegment out, long at) {
        int[] words = new int[PIECE * WeightFormat.PANEL_ROWS];
        for (int first = 0; first < (cols + 1) / 2; first += PIECE) {
            int count = Math.min(PIECE, (cols + 1) / 2 - first);
            for (int lane = 0; lane < rows; lane++) {
                for (int j = 0; j < count; j++) {
                    int k = 2 * (first + j);
                    int high = k + 1 < cols ? values[lane * cols + k + 1] : 0;
                    words[j * WeightFormat.PANEL_ROWS + lane] = high << 16 | values[lane * cols + k] & 0xFFFF;
                }
            }
            Words.words(words, count * WeightFormat.PANEL_ROWS, out, at + 64L * first);
        }
    }

    /// The numbers of a panel, row by row.
    ///
    /// @param rows 1 to 16
    public static void decode(MemorySegment data, long at, int rows, int cols, short[] out) {
        for (int lane = 0; lane < rows; lane++) {
            for (int k = 0; k < cols; k++) {
                out[lane * cols + k] = Words.half(data, at + 64L * (k / 2) + 4 * lane + 2 * (k % 2));
            }
        }
    }

    /// One row of the panel.
    static void row(MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        for (int k = 0; k < cols; k++) {
            out[offset + k] = BFloat16.toFloat(Words.half(data, at + 64L * (k / 2) + 4 * lane + 2 * (k % 2)));
        }
    }
}

package millrace.engine.format;

import java.lang.foreign.MemorySegment;

/// A panel in BF16: `[⌈cols / 2⌉][16]` words of two columns, the even one in the low half. The partner of an odd last
/// column is zero.
public final class Bf16Panel {
    private Bf16Panel() {}

    public static long bytes(int cols) {
        return 64L * ((cols + 1) / 2);
    }

    /// @param values row by row, `cols` each
    /// @param rows 1 to 16; missing ones become zero
    public static void encode(short[] values, int rows, int cols, MemorySegment out, long at) {
        for (int lane = 0; lane < WeightFormat.PANEL_ROWS; lane++) {
            for (int k = 0; k < cols; k += 2) {
                int word = 0;
                if (lane < rows) {
                    int low = values[lane * cols + k] & 0xFFFF;
                    int high = k + 1 < cols ? values[lane * cols + k + 1] : 0;
                    word = high << 16 | low;
                }
                Words.word(out, at + 32L * k + 4 * lane, word);
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

package millrace.engine.format;

import java.lang.foreign.MemorySegment;

/// A panel in F32: `[cols][16]` words.
public final class F32Panel {
    private F32Panel() {}

    public static long bytes(int cols) {
        return 64L * cols;
    }

    /// @param values row by row, `cols` each
    /// @param rows 1 to 16; missing ones become zero
    public static void encode(float[] values, int rows, int cols, MemorySegment out, long at) {
        for (int lane = 0; lane < WeightFormat.PANEL_ROWS; lane++) {
            for (int k = 0; k < cols; k++) {
                Words.real(out, at + 64L * k + 4 * lane, lane < rows ? values[lane * cols + k] : 0);
            }
        }
    }

    /// One row of the panel.
    static void row(MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        for (int k = 0; k < cols; k++) {
            out[offset + k] = Words.real(data, at + 64L * k + 4 * lane);
        }
    }
}

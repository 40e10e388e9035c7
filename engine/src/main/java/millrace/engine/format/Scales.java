package millrace.engine.format;

/// What panels with a BF16 scale for each row and 32 columns share, and quantizers.
final class Scales {
    private Scales() {}

    /// Where the scale of a lane and group lies: blocks of two groups begin with them, group by group.
    static long at(long panel, int blockBytes, int lane, int group) {
        return panel + (long) (group / 2) * blockBytes + group % 2 * 2 * WeightFormat.PANEL_ROWS + 2 * lane;
    }

    /// The largest magnitude of `values[from, to)`.
    ///
    /// @param row where the row of these values begins, for the message
    /// @throws IllegalArgumentException if one is not finite
    static double largest(float[] values, int from, int to, int row) {
        float largest = 0;
        for (int i = from; i < to; i++) {
            if (!Float.isFinite(values[i])) {
                throw new IllegalArgumentException(
                        "column " + (i - row) + ": expected a finite weight, got " + values[i]);
            }
            largest = Math.max(largest, Math.abs(values[i]));
        }
        return largest;
    }

    /// The least BF16 that is not below a value of 0 or more.
    static short up(double value) {
        float nearest = (float) value;
        if (nearest < value) {
            nearest = Math.nextUp(nearest);
        }
        int bits = Float.floatToRawIntBits(nearest);
        return (short) (bits + 0xFFFF >>> 16);
    }
}

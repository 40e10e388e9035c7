package millrace.engine.format;

/// FP8 in the form e4m3fn: 1 bit sign, 4 bits exponent with bias 7, 3 bits mantissa, no infinities.
///
/// The largest value is 448; `0x7F` and `0xFF` are NaN. (Micikevicius et al., *FP8 Formats for Deep Learning*, 2022.)
public final class Float8 {
    /// The largest finite value.
    public static final float MAX = 448;

    private Float8() {}

    /// Whether a code is one of the two NaNs.
    public static boolean isNaN(byte code) {
        return (code & 0x7F) == 0x7F;
    }

    /// The value of a code, exactly; NaN for the two codes of NaN.
    public static float toFloat(byte code) {
        if (isNaN(code)) {
            return Float.NaN;
        }
        // Exponent and mantissa in the place that F32 has for them, and the difference of the biases by a product,
        // which is exact also for the smallest codes.
        return Float.intBitsToFloat((code & 0x80) << 24 | (code & 0x7F) << 20) * 0x1p120f;
    }

    /// The nearest code, ties to the even one; magnitudes above [#MAX] give that value, NaN gives NaN.
    public static byte fromFloat(float value) {
        int sign = Float.floatToRawIntBits(value) >>> 24 & 0x80;
        float magnitude = Math.abs(value);
        if (Float.isNaN(value)) {
            return (byte) (sign | 0x7F);
        }
        if (magnitude >= MAX) {
            return (byte) (sign | 0x7E);
        }
        // From 2⁻⁶ on a step is an eighth of the power of two below the value; under it, 2⁻⁹.
        int exponent = Math.max(Math.getExponent(magnitude), -6);
        int steps = (int) Math.rint(Math.scalb((double) magnitude, 3 - exponent));
        // Eight steps are the power of two itself; a carry into the next exponent comes out right by itself.
        return (byte) (sign | (exponent + 6 << 3) + steps);
    }
}

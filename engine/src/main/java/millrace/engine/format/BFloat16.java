package millrace.engine.format;

/// Conversions between F32 and BF16: the upper half of an F32.
public final class BFloat16 {
    private BFloat16() {}

    /// The value of 16 bits, exactly.
    public static float toFloat(short bits) {
        return Float.intBitsToFloat(bits << 16);
    }

    /// The nearest BF16, ties to the even one; overflow gives infinity, a NaN stays one and becomes quiet.
    public static short fromFloat(float value) {
        int bits = Float.floatToRawIntBits(value);
        if ((bits & 0x7FFF_FFFF) > 0x7F80_0000) {
            return (short) (bits >>> 16 | 0x40);
        }
        return (short) (bits + 0x7FFF + (bits >>> 16 & 1) >>> 16);
    }
}

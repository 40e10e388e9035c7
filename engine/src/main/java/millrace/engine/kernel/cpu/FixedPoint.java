package millrace.engine.kernel.cpu;

/// Numbers as 16-bit multiples of one power of two, their unit.
///
/// With `2ᵉ ≤ max |x| < 2ᵉ⁺¹`, e from −99 on, the unit is `2ᵉ⁻¹⁴`, and a number is `z = min(32767, x / unit)`, rounded half
/// to even. So the error is at most `max |x| / 32767` where e > −99, and products with codes of 8 bits are integers whose
/// sum over 512 of them still fits 32 bits: no order of additions matters. If a number is not finite the unit is NaN, and
/// so is what it multiplies.
///
/// Floats hold integers up to 2²⁴ exactly. So `z` is given here as `256 · high + low`, with both within ±128: chains of
/// up to 512 products of either with codes are exact in F32, too, and `fma(256, Σ high · c, Σ low · c)` is their integer
/// sum, rounded once.
final class FixedPoint {
    /// Products of a code and a number that are summed at most.
    static final int MOST_TERMS = 512;

    private static final int EXPONENT = 0x7F80_0000;
    private static final int LEAST_EXPONENT = 28 << 23;
    /// Added to a smaller float, this leaves the nearest integer in the lowest bits; ties go to even ones.
    private static final float ROUND = 0x1.8p23f;

    private static final int ROUND_BITS = 0x4B40_0000;

    private FixedPoint() {}

    /// Returns the unit of `x[from]` to `x[from + n − 1]`; their parts go to `out[high]` and `out[low]` on.
    static float split(float[] x, int from, int n, float[] out, int high, int low) {
        int largest = 0;
        for (int i = 0; i < n; i++) {
            largest = Math.max(largest, Float.floatToRawIntBits(x[from + i]) & Integer.MAX_VALUE);
        }
        int exponent = Math.max(largest & EXPONENT, LEAST_EXPONENT);
        float factor = Float.intBitsToFloat((268 << 23) - exponent);
        for (int i = 0; i < n; i++) {
            int z = Math.min(Float.floatToRawIntBits(x[from + i] * factor + ROUND) - ROUND_BITS, 32767);
            int upper = z + 128 >> 8;
            out[high + i] = upper;
            out[low + i] = z - (upper << 8);
        }
        return exponent == EXPONENT ? Float.NaN : Float.intBitsToFloat(exponent - (14 << 23));
    }
}

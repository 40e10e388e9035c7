package millrace.engine.kernel;

/// The exponential function of this engine, in F32, with the same bits everywhere.
///
/// `exp(x) = 2ⁿ · e^r`, `n = round(x / ln 2)`, `r = x − n · ln 2` by two fmas with a split constant, `e^r` by a
/// polynomial of degree 6 in fmas (coefficients: Cephes `expf`). Error at most 2 ulp for every F32 whose result is
/// normal; below that the result is rounded to the denormals; above 88.73 it is infinite.
///
/// The library function is not used: its bits may differ between interpreter, compiler and platform.
public final class ExpMath {
    public static final float MIN = -104f;
    public static final float MAX = 89f;
    public static final float INV_LN2 = 1.44269504f;
    /// 1.5 · 2²³: adding it rounds to an integer, half to even, and leaves that integer in the low bits.
    public static final float ROUND = 12582912f;

    public static final float LN2_HIGH = 0.693359375f;
    public static final float LN2_LOW = -2.12194440e-4f;
    public static final float C0 = 1.9875691500e-4f;
    public static final float C1 = 1.3981999507e-3f;
    public static final float C2 = 8.3334519073e-3f;
    public static final float C3 = 4.1665795894e-2f;
    public static final float C4 = 1.6666665459e-1f;
    public static final float C5 = 5.0000001201e-1f;

    private ExpMath() {}

    public static float exp(float value) {
        float x = Math.max(Math.min(value, MAX), MIN);
        float rounded = Math.fma(x, INV_LN2, ROUND);
        int n = Float.floatToRawIntBits(rounded) - Float.floatToRawIntBits(ROUND);
        float whole = rounded - ROUND;
        float r = Math.fma(-whole, LN2_HIGH, x);
        r = Math.fma(-whole, LN2_LOW, r);
        float p = Math.fma(C0, r, C1);
        p = Math.fma(p, r, C2);
        p = Math.fma(p, r, C3);
        p = Math.fma(p, r, C4);
        p = Math.fma(p, r, C5);
        p = Math.fma(p, r * r, r) + 1f;
        // In two factors, so that neither overflows and a denormal result is rounded once.
        int half = n >> 1;
        float low = Float.intBitsToFloat(half + 127 << 23);
        float high = Float.intBitsToFloat(n - half + 127 << 23);
        return p * low * high;
    }

    /// `1 / (1 + exp(−x))`.
    public static float sigmoid(float x) {
        return 1f / (1f + exp(-x));
    }
}

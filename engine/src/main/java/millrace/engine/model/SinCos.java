package millrace.engine.model;

/// Sine and cosine of an angle in F64, the same bits everywhere, without an allocation.
///
/// `n = round(x · 2/π)`, `r = x − n · π/2` by three fmas with π/2 in three parts, then the Taylor polynomials up to
/// `r¹⁵` and `r¹⁶`, whose rest is below 2⁻⁵⁵ for `│r│ ≤ π/4`. Absolute error below 10⁻¹⁵ for `│x│ ≤ 2³⁰`, the angles of
/// every position that an int holds but the last few.
///
/// [StrictMath] has the same bits everywhere too, but makes an object for each angle above π/4, and [Math] may differ
/// from platform to platform.
final class SinCos {
    private static final double TWO_OVER_PI = 2 / Math.PI;
    private static final double HIGH = 0x1.921fb54442d18p0;
    private static final double MIDDLE = 0x1.1a62633145c07p-54;
    private static final double LOW = -0x1.f1976b7ed8fbcp-110;

    private SinCos() {}

    static double sin(double x) {
        double n = Math.rint(x * TWO_OVER_PI);
        return quarter((long) n, reduced(x, n));
    }

    static double cos(double x) {
        double n = Math.rint(x * TWO_OVER_PI);
        return quarter((long) n + 1, reduced(x, n));
    }

    private static double reduced(double x, double n) {
        double r = Math.fma(-n, HIGH, x);
        r = Math.fma(-n, MIDDLE, r);
        return Math.fma(-n, LOW, r);
    }

    /// `sin(n · π/2 + r)`.
    private static double quarter(long n, double r) {
        double value = (n & 1) == 0 ? sine(r) : cosine(r);
        return (n & 2) == 0 ? value : -value;
    }

    private static double sine(double r) {
        double s = r * r;
        double p = -1 / 1307674368000.0;
        p = Math.fma(p, s, 1 / 6227020800.0);
        p = Math.fma(p, s, -1 / 39916800.0);
        p = Math.fma(p, s, 1 / 362880.0);
        p = Math.fma(p, s, -1 / 5040.0);
        p = Math.fma(p, s, 1 / 120.0);
        p = Math.fma(p, s, -1 / 6.0);
        return Math.fma(p * s, r, r);
    }

    private static double cosine(double r) {
        double s = r * r;
        double p = 1 / 20922789888000.0;
        p = Math.fma(p, s, -1 / 87178291200.0);
        p = Math.fma(p, s, 1 / 479001600.0);
        p = Math.fma(p, s, -1 / 3628800.0);
        p = Math.fma(p, s, 1 / 40320.0);
        p = Math.fma(p, s, -1 / 720.0);
        p = Math.fma(p, s, 1 / 24.0);
        p = Math.fma(p, s, -0.5);
        return Math.fma(p, s, 1);
    }
}

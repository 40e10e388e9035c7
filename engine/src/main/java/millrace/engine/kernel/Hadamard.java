package millrace.engine.kernel;

/// The orthonormal Walsh-Hadamard rotation, in F32, with the same bits everywhere.
///
/// It spreads what stands in one dimension evenly over all, so that an outlier does not take the steps of a coarse
/// format away from its neighbours. It is its own inverse and leaves inner products as they are (up to rounding).
///
/// For `h = 1, 2, 4, … n / 2` every pair `(x[i], x[i + h])`, `i mod 2h < h`, becomes `(x[i] + x[i + h], x[i] − x[i + h])`;
/// then each value is multiplied by `1 / √n`, rounded once.
public final class Hadamard {
    private Hadamard() {}

    /// Rotates `n` values in place; `n` is a power of two.
    public static void rotate(float[] x, int offset, int n) {
        for (int h = 1; h < n; h *= 2) {
            for (int i = offset; i < offset + n; i += 2 * h) {
                butterflies(x, i, h);
            }
        }
        float factor = (float) (1 / Math.sqrt(n));
        for (int i = offset; i < offset + n; i++) {
            x[i] *= factor;
        }
    }

    private static void butterflies(float[] x, int from, int h) {
        for (int i = from; i < from + h; i++) {
            float sum = x[i] + x[i + h];
            x[i + h] = x[i] - x[i + h];
            x[i] = sum;
        }
    }
}

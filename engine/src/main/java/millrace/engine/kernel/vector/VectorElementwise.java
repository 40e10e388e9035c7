package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.at;
import static millrace.engine.kernel.vector.Lanes.zero;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import millrace.engine.kernel.ExpMath;
import millrace.engine.kernel.cpu.Loops;

/// Loops over single values and their sums. What is left over beyond whole groups of 16 is done by the scalar forms.
final class VectorElementwise {
    private static final int ROUND_BITS = Float.floatToRawIntBits(ExpMath.ROUND);

    private VectorElementwise() {}

    static float sumOfSquares(float[] x, int offset, int n, float[] partials) {
        int whole = n / 16 * 16;
        for (int part = 0; part < 16; part += L) {
            squares(x, offset + part, offset + whole, partials, part);
        }
        for (int i = whole; i < n; i++) {
            partials[i % 16] = Math.fma(x[offset + i], x[offset + i], partials[i % 16]);
        }
        return Loops.tree(partials);
    }

    private static void squares(float[] x, int from, int to, float[] partials, int part) {
        FloatVector sum = zero();
        for (int i = from; i < to; i += 16) {
            FloatVector v = at(x, i);
            sum = v.fma(v, sum);
        }
        sum.intoArray(partials, part);
    }

    static void swiglu(float[] gate, int g, float[] up, int u, int n) {
        int whole = n / L * L;
        for (int i = 0; i < whole; i += L) {
            FloatVector z = at(gate, g + i);
            z.div(exp(z.neg()).add(1f)).mul(at(up, u + i)).intoArray(gate, g + i);
        }
        for (int i = whole; i < n; i++) {
            float z = gate[g + i];
            gate[g + i] = z / (1f + ExpMath.exp(-z)) * up[u + i];
        }
    }

    /// Multiplies by `scale` in place; returns the maximum.
    static float scale(float[] x, int offset, int n, float scale, float[] partials) {
        int whole = n / L * L;
        FloatVector max = all(Float.NEGATIVE_INFINITY);
        for (int i = 0; i < whole; i += L) {
            FloatVector v = at(x, offset + i).mul(scale);
            v.intoArray(x, offset + i);
            max = max.max(v);
        }
        max.intoArray(partials, 0);
        float result = Float.NEGATIVE_INFINITY;
        for (int l = 0; l < L; l++) {
            result = Math.max(result, partials[l]);
        }
        for (int i = whole; i < n; i++) {
            x[offset + i] *= scale;
            result = Math.max(result, x[offset + i]);
        }
        return result;
    }

    /// Replaces values by `exp(x − max)`; returns their sum.
    static float exp(float[] x, int offset, int n, float max, float[] partials) {
        int whole = n / 16 * 16;
        Arrays.fill(partials, 0, 16, 0);
        for (int part = 0; part < 16; part += L) {
            exp(x, offset + part, offset + whole, max, partials, part);
        }
        for (int i = whole; i < n; i++) {
            float e = ExpMath.exp(x[offset + i] - max);
            x[offset + i] = e;
            partials[i % 16] += e;
        }
        return Loops.tree(partials);
    }

    private static void exp(float[] x, int from, int to, float max, float[] partials, int part) {
        FloatVector sum = zero();
        for (int i = from; i < to; i += 16) {
            FloatVector e = exp(at(x, i).sub(max));
            e.intoArray(x, i);
            sum = sum.add(e);
        }
        sum.intoArray(partials, part);
    }

    /// [ExpMath#exp], operation by operation.
    private static FloatVector exp(FloatVector value) {
        FloatVector x = value.min(ExpMath.MAX).max(ExpMath.MIN);
        FloatVector rounded = x.fma(all(ExpMath.INV_LN2), all(ExpMath.ROUND));
        IntVector n = rounded.reinterpretAsInts().sub(ROUND_BITS);
        FloatVector whole = rounded.sub(ExpMath.ROUND).neg();
        FloatVector r = whole.fma(all(ExpMath.LN2_HIGH), x);
        r = whole.fma(all(ExpMath.LN2_LOW), r);
        FloatVector p = r.fma(all(ExpMath.C0), all(ExpMath.C1));
        p = p.fma(r, all(ExpMath.C2));
        p = p.fma(r, all(ExpMath.C3));
        p = p.fma(r, all(ExpMath.C4));
        p = p.fma(r, all(ExpMath.C5));
        p = p.fma(r.mul(r), r).add(1f);
        IntVector half = n.lanewise(VectorOperators.ASHR, 1);
        FloatVector low = half.add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
        FloatVector high = n.sub(half).add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
        return p.mul(low).mul(high);
    }
}

package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.at;
import static millrace.engine.kernel.vector.Lanes.zero;

import jdk.incubator.vector.FloatVector;

/// Loops of attention over decoded tiles: scores of 16 tokens, weighted sums of values.
final class VectorAttention {
    private VectorAttention() {}

    /// Four queries against one vector of tokens, from what stands in `scores`.
    ///
    /// Four depths to a round, also so that the method is too large to become part of its callers.
    static void scoreFour(
            float[] q, int q0, int stride, float[] keys, int k0, int depth, float[] scores, int s0, int sStride) {
        FloatVector a = at(scores, s0);
        FloatVector b = at(scores, s0 + sStride);
        FloatVector c = at(scores, s0 + 2 * sStride);
        FloatVector e = at(scores, s0 + 3 * sStride);
        int q1 = q0 + stride;
        int q2 = q1 + stride;
        int q3 = q2 + stride;
        int whole = depth & -4;
        for (int d = 0; d < whole; d += 4) {
            FloatVector key = at(keys, k0 + 16 * d);
            a = key.fma(all(q[q0 + d]), a);
            b = key.fma(all(q[q1 + d]), b);
            c = key.fma(all(q[q2 + d]), c);
            e = key.fma(all(q[q3 + d]), e);
            key = at(keys, k0 + 16 * d + 16);
            a = key.fma(all(q[q0 + d + 1]), a);
            b = key.fma(all(q[q1 + d + 1]), b);
            c = key.fma(all(q[q2 + d + 1]), c);
            e = key.fma(all(q[q3 + d + 1]), e);
            key = at(keys, k0 + 16 * d + 32);
            a = key.fma(all(q[q0 + d + 2]), a);
            b = key.fma(all(q[q1 + d + 2]), b);
            c = key.fma(all(q[q2 + d + 2]), c);
            e = key.fma(all(q[q3 + d + 2]), e);
            key = at(keys, k0 + 16 * d + 48);
            a = key.fma(all(q[q0 + d + 3]), a);
            b = key.fma(all(q[q1 + d + 3]), b);
            c = key.fma(all(q[q2 + d + 3]), c);
            e = key.fma(all(q[q3 + d + 3]), e);
        }
        a.intoArray(scores, s0);
        b.intoArray(scores, s0 + sStride);
        c.intoArray(scores, s0 + 2 * sStride);
        e.intoArray(scores, s0 + 3 * sStride);
    }

    static void scoreOne(float[] q, int q0, float[] keys, int k0, int depth, float[] scores, int s0) {
        FloatVector a = at(scores, s0);
        for (int d = 0; d < depth; d++) {
            a = at(keys, k0 + 16 * d).fma(all(q[q0 + d]), a);
        }
        a.intoArray(scores, s0);
    }

    static void fold(float[] scales, int c0, float[] parts, int p0, float[] scores, int s0, boolean fresh) {
        FloatVector from = fresh ? zero() : at(scores, s0);
        at(scales, c0).fma(at(parts, p0), from).intoArray(scores, s0);
    }

    static void fixedScores(float[] parts, int high, int low, int scales, float unit, float[] scores, int s0) {
        FloatVector sum = at(parts, high).fma(all(256f), at(parts, low));
        sum.mul(unit).mul(at(parts, scales)).intoArray(scores, s0);
    }

    static void fixedSums(float[] parts, int high, int low, int lanes, float unit, float[] acc, int a0) {
        FloatVector factor = all(unit);
        for (int d = 0; d < lanes; d += L) {
            FloatVector sum = at(parts, high + d).fma(all(256f), at(parts, low + d));
            sum.fma(factor, at(acc, a0 + d)).intoArray(acc, a0 + d);
        }
    }

    /// Four tokens to a round, for the same reasons; `tokens` is a multiple of 4.
    static void accumulateFour(
            float[] p, int p0, int tokens, float[] values, int v0, int lanes, float[] acc, int a0) {
        FloatVector a = at(acc, a0);
        FloatVector b = at(acc, a0 + L);
        FloatVector c = at(acc, a0 + 2 * L);
        FloatVector e = at(acc, a0 + 3 * L);
        for (int t = 0; t < tokens; t += 4) {
            int v = v0 + t * lanes;
            FloatVector weight = all(p[p0 + t]);
            a = at(values, v).fma(weight, a);
            b = at(values, v + L).fma(weight, b);
            c = at(values, v + 2 * L).fma(weight, c);
            e = at(values, v + 3 * L).fma(weight, e);
            v += lanes;
            weight = all(p[p0 + t + 1]);
            a = at(values, v).fma(weight, a);
            b = at(values, v + L).fma(weight, b);
            c = at(values, v + 2 * L).fma(weight, c);
            e = at(values, v + 3 * L).fma(weight, e);
            v += lanes;
            weight = all(p[p0 + t + 2]);
            a = at(values, v).fma(weight, a);
            b = at(values, v + L).fma(weight, b);
            c = at(values, v + 2 * L).fma(weight, c);
            e = at(values, v + 3 * L).fma(weight, e);
            v += lanes;
            weight = all(p[p0 + t + 3]);
            a = at(values, v).fma(weight, a);
            b = at(values, v + L).fma(weight, b);
            c = at(values, v + 2 * L).fma(weight, c);
            e = at(values, v + 3 * L).fma(weight, e);
        }
        a.intoArray(acc, a0);
        b.intoArray(acc, a0 + L);
        c.intoArray(acc, a0 + 2 * L);
        e.intoArray(acc, a0 + 3 * L);
    }

    static void accumulateOne(
            float[] p, int p0, int tokens, float[] values, int v0, int lanes, float[] acc, int a0) {
        FloatVector a = at(acc, a0);
        for (int t = 0; t < tokens; t++) {
            a = at(values, v0 + t * lanes).fma(all(p[p0 + t]), a);
        }
        a.intoArray(acc, a0);
    }

    /// What heads make of tokens; what is no whole vector is done one by one.
    static void weigh(
            float[] dots, int d0, int stride, int heads, int n, float[] weights, int w0, float[] out, int o0) {
        int whole = n / L * L;
        for (int t = 0; t < whole; t += L) {
            weigh(dots, d0 + t, stride, heads, weights, w0, out, o0 + t);
        }
        for (int t = whole; t < n; t++) {
            float acc = 0;
            for (int h = 0; h < heads; h++) {
                acc = Math.fma(weights[w0 + h], Math.max(0, dots[d0 + h * stride + t]), acc);
            }
            out[o0 + t] = acc + 0f;
        }
    }

    private static void weigh(float[] dots, int d0, int stride, int heads, float[] weights, int w0, float[] out, int o0) {
        FloatVector acc = zero();
        for (int h = 0; h < heads; h++) {
            FloatVector dot = at(dots, d0 + h * stride);
            // Unlike the maximum this keeps −0, which changes nothing but the sign of a zero.
            dot = dot.blend(0f, dot.lt(0f));
            acc = dot.fma(all(weights[w0 + h]), acc);
        }
        acc.add(0f).intoArray(out, o0);
    }
}

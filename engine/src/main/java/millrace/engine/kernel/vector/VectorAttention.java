package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.F;
import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.at;
import static millrace.engine.kernel.vector.Lanes.even;
import static millrace.engine.kernel.vector.Lanes.floats;
import static millrace.engine.kernel.vector.Lanes.odd;
import static millrace.engine.kernel.vector.Lanes.words;
import static millrace.engine.kernel.vector.Lanes.zero;

import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import millrace.engine.kernel.Memory;

/// Loops of attention: cache tiles to F32, scores of 16 tokens, weighted sums of values.
final class VectorAttention {
    private VectorAttention() {}

    static void copy(long address, int from, int to, float[] out, int o) {
        for (int lane = from; lane < to; lane += L) {
            floats(address + 4L * lane).intoArray(out, o + lane);
        }
    }

    static void decodeBf16(long address, int from, int to, int lanes, float[] out, int o) {
        for (int lane = from; lane < to; lane += L) {
            IntVector word = words(address + 4L * lane);
            even(word).intoArray(out, o + lane);
            odd(word).intoArray(out, o + lanes + lane);
        }
    }

    static void decodeInt8(long address, int from, int to, int lanes, float[] out, int o) {
        for (int lane = from; lane < to; lane += L) {
            IntVector word = words(address + 4L * lane);
            code(word, 24).intoArray(out, o + lane);
            code(word, 16).intoArray(out, o + lanes + lane);
            code(word, 8).intoArray(out, o + 2 * lanes + lane);
            code(word, 0).intoArray(out, o + 3 * lanes + lane);
        }
    }

    private static FloatVector code(IntVector word, int shift) {
        IntVector signed = word.lanewise(VectorOperators.LSHL, shift).lanewise(VectorOperators.ASHR, 24);
        return (FloatVector) signed.convertShape(VectorOperators.I2F, F, 0);
    }

    static void scaleDepths(float[] x, int offset, int lanes, int from, int to, long scales) {
        for (int d = 0; d < 16; d++) {
            scale(x, offset + d * lanes, from, to, Memory.ALL.get(ValueLayout.JAVA_FLOAT, scales + 4L * d));
        }
    }

    private static void scale(float[] x, int offset, int from, int to, float scale) {
        for (int lane = from; lane < to; lane += L) {
            at(x, offset + lane).mul(scale).intoArray(x, offset + lane);
        }
    }

    /// Four queries against one vector of tokens; `part` is the first of them.
    static void scoreFour(
            float[] q, int q0, int stride, float[] keys, int part, int depth, float[] scores, int s0, int sStride) {
        FloatVector a = zero();
        FloatVector b = a;
        FloatVector c = a;
        FloatVector e = a;
        int q1 = q0 + stride;
        int q2 = q1 + stride;
        int q3 = q2 + stride;
        for (int d = 0; d < depth; d++) {
            FloatVector key = at(keys, part + 16 * d);
            a = key.fma(all(q[q0 + d]), a);
            b = key.fma(all(q[q1 + d]), b);
            c = key.fma(all(q[q2 + d]), c);
            e = key.fma(all(q[q3 + d]), e);
        }
        a.intoArray(scores, s0);
        b.intoArray(scores, s0 + sStride);
        c.intoArray(scores, s0 + 2 * sStride);
        e.intoArray(scores, s0 + 3 * sStride);
    }

    static void scoreOne(float[] q, int q0, float[] keys, int part, int depth, float[] scores, int s0) {
        FloatVector a = zero();
        for (int d = 0; d < depth; d++) {
            a = at(keys, part + 16 * d).fma(all(q[q0 + d]), a);
        }
        a.intoArray(scores, s0);
    }

    static void accumulateFour(
            float[] p, int p0, int tokens, float[] values, int v0, int lanes, float[] acc, int a0) {
        FloatVector a = at(acc, a0);
        FloatVector b = at(acc, a0 + L);
        FloatVector c = at(acc, a0 + 2 * L);
        FloatVector e = at(acc, a0 + 3 * L);
        for (int t = 0; t < tokens; t++) {
            FloatVector weight = all(p[p0 + t]);
            int v = v0 + t * lanes;
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
}

package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.even;
import static millrace.engine.kernel.vector.Lanes.half;
import static millrace.engine.kernel.vector.Lanes.odd;
import static millrace.engine.kernel.vector.Lanes.words;
import static millrace.engine.kernel.vector.Lanes.zero;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;

/// Tiles of BF16 weights: four vectors of outputs by one, two or four rows of input.
///
/// A vector holds a panel's 16 outputs, or a part of them on narrower machines: `w0 … w3` are the addresses of four
/// such parts at the first depth, and a depth pair later stands 64 bytes on. Each output is one chain of fmas over
/// ascending depth. Several chains run at once because one would wait for itself; four panels, because a core fetches
/// more from memory when it reads several streams.
final class Bf16Tiles {
    private Bf16Tiles() {}

    /// One row of `x`, starting at `x0`; writes `out[o + s · L]` for output vector s.
    static void one(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int x0,
            int pairs,
            float[] out,
            int o) {
        FloatVector a0 = zero();
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        for (int k = 0; k < pairs; k++) {
            long at = 64L * k;
            IntVector v0 = words(w0 + at);
            IntVector v1 = words(w1 + at);
            IntVector v2 = words(w2 + at);
            IntVector v3 = words(w3 + at);
            FloatVector s = all(x[x0 + 2 * k]);
            a0 = even(v0).fma(s, a0);
            a1 = even(v1).fma(s, a1);
            a2 = even(v2).fma(s, a2);
            a3 = even(v3).fma(s, a3);
            s = all(x[x0 + 2 * k + 1]);
            a0 = odd(v0).fma(s, a0);
            a1 = odd(v1).fma(s, a1);
            a2 = odd(v2).fma(s, a2);
            a3 = odd(v3).fma(s, a3);
        }
        a0.intoArray(out, o);
        a1.intoArray(out, o + L);
        a2.intoArray(out, o + 2 * L);
        a3.intoArray(out, o + 3 * L);
    }

    /// Two rows of `x`, starting at `x0` … `x1`; writes `out[o + t · stride + s · L]` for output vector s.
    static void two(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int x0,
            int x1,
            int pairs,
            float[] out,
            int o,
            int stride) {
        FloatVector a0 = zero();
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        FloatVector b0 = a0;
        FloatVector b1 = a0;
        FloatVector b2 = a0;
        FloatVector b3 = a0;
        for (int k = 0; k < pairs; k++) {
            long at = 64L * k;
            IntVector v0 = words(w0 + at);
            IntVector v1 = words(w1 + at);
            IntVector v2 = words(w2 + at);
            IntVector v3 = words(w3 + at);
            FloatVector s = all(x[x0 + 2 * k]);
            FloatVector t = all(x[x1 + 2 * k]);
            FloatVector w = even(v0);
            a0 = w.fma(s, a0);
            b0 = w.fma(t, b0);
            w = even(v1);
            a1 = w.fma(s, a1);
            b1 = w.fma(t, b1);
            w = even(v2);
            a2 = w.fma(s, a2);
            b2 = w.fma(t, b2);
            w = even(v3);
            a3 = w.fma(s, a3);
            b3 = w.fma(t, b3);
            s = all(x[x0 + 2 * k + 1]);
            t = all(x[x1 + 2 * k + 1]);
            w = odd(v0);
            a0 = w.fma(s, a0);
            b0 = w.fma(t, b0);
            w = odd(v1);
            a1 = w.fma(s, a1);
            b1 = w.fma(t, b1);
            w = odd(v2);
            a2 = w.fma(s, a2);
            b2 = w.fma(t, b2);
            w = odd(v3);
            a3 = w.fma(s, a3);
            b3 = w.fma(t, b3);
        }
        a0.intoArray(out, o);
        a1.intoArray(out, o + L);
        a2.intoArray(out, o + 2 * L);
        a3.intoArray(out, o + 3 * L);
        b0.intoArray(out, o + stride);
        b1.intoArray(out, o + stride + L);
        b2.intoArray(out, o + stride + 2 * L);
        b3.intoArray(out, o + stride + 3 * L);
    }

    /// Four rows of `x`, starting at `x0` … `x3`; writes `out[o + t · stride + s · L]` for output vector s.
    static void four(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int x0,
            int x1,
            int x2,
            int x3,
            int pairs,
            float[] out,
            int o,
            int stride) {
        FloatVector a0 = zero();
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        FloatVector b0 = a0;
        FloatVector b1 = a0;
        FloatVector b2 = a0;
        FloatVector b3 = a0;
        FloatVector c0 = a0;
        FloatVector c1 = a0;
        FloatVector c2 = a0;
        FloatVector c3 = a0;
        FloatVector d0 = a0;
        FloatVector d1 = a0;
        FloatVector d2 = a0;
        FloatVector d3 = a0;
        for (int k = 0; k < pairs; k++) {
            long at = 64L * k;
            IntVector v0 = words(w0 + at);
            IntVector v1 = words(w1 + at);
            IntVector v2 = words(w2 + at);
            IntVector v3 = words(w3 + at);
            // Both halves by one body: twice the multiply-adds in it would not be compiled to vectors.
            for (int h = 0; h < 2; h++) {
                FloatVector p0 = half(v0, 16 - 16 * h);
                FloatVector p1 = half(v1, 16 - 16 * h);
                FloatVector p2 = half(v2, 16 - 16 * h);
                FloatVector p3 = half(v3, 16 - 16 * h);
                FloatVector s = all(x[x0 + 2 * k + h]);
                a0 = p0.fma(s, a0);
                a1 = p1.fma(s, a1);
                a2 = p2.fma(s, a2);
                a3 = p3.fma(s, a3);
                s = all(x[x1 + 2 * k + h]);
                b0 = p0.fma(s, b0);
                b1 = p1.fma(s, b1);
                b2 = p2.fma(s, b2);
                b3 = p3.fma(s, b3);
                s = all(x[x2 + 2 * k + h]);
                c0 = p0.fma(s, c0);
                c1 = p1.fma(s, c1);
                c2 = p2.fma(s, c2);
                c3 = p3.fma(s, c3);
                s = all(x[x3 + 2 * k + h]);
                d0 = p0.fma(s, d0);
                d1 = p1.fma(s, d1);
                d2 = p2.fma(s, d2);
                d3 = p3.fma(s, d3);
            }
        }
        a0.intoArray(out, o);
        a1.intoArray(out, o + L);
        a2.intoArray(out, o + 2 * L);
        a3.intoArray(out, o + 3 * L);
        b0.intoArray(out, o + stride);
        b1.intoArray(out, o + stride + L);
        b2.intoArray(out, o + stride + 2 * L);
        b3.intoArray(out, o + stride + 3 * L);
        c0.intoArray(out, o + 2 * stride);
        c1.intoArray(out, o + 2 * stride + L);
        c2.intoArray(out, o + 2 * stride + 2 * L);
        c3.intoArray(out, o + 2 * stride + 3 * L);
        d0.intoArray(out, o + 3 * stride);
        d1.intoArray(out, o + 3 * stride + L);
        d2.intoArray(out, o + 3 * stride + 2 * L);
        d3.intoArray(out, o + 3 * stride + 3 * L);
    }
}

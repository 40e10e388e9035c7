package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.at;
import static millrace.engine.kernel.vector.Lanes.floats;

import jdk.incubator.vector.FloatVector;

/// Tiles of F32 weights: four vectors of outputs by one, two or four rows of input.
///
/// A vector holds a panel's 16 outputs, or a part of them on narrower machines: `w0 … w3` are the addresses of four
/// such parts at the first depth, and a depth later stands 64 bytes on. Each output is a chain of fmas over ascending
/// depth, which goes on from what `out` holds. Several chains run at once because one would wait for itself; four
/// panels, because a core fetches more from memory when it reads several streams.
final class F32Tiles {
    private F32Tiles() {}

    /// One row of `x`, starting at `x0`, adding to `out[o + s · L]` for output vector s.
    static void one(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int x0,
            int depth,
            float[] out,
            int o) {
        FloatVector a0 = at(out, o);
        FloatVector a1 = at(out, o + L);
        FloatVector a2 = at(out, o + 2 * L);
        FloatVector a3 = at(out, o + 3 * L);
        for (int k = 0; k < depth; k++) {
            long step = 64L * k;
            FloatVector p0 = floats(w0 + step);
            FloatVector p1 = floats(w1 + step);
            FloatVector p2 = floats(w2 + step);
            FloatVector p3 = floats(w3 + step);
            FloatVector s = all(x[x0 + k]);
            a0 = p0.fma(s, a0);
            a1 = p1.fma(s, a1);
            a2 = p2.fma(s, a2);
            a3 = p3.fma(s, a3);
        }
        a0.intoArray(out, o);
        a1.intoArray(out, o + L);
        a2.intoArray(out, o + 2 * L);
        a3.intoArray(out, o + 3 * L);
    }

    /// Two rows of `x`, starting at `x0` … `x1`, adding to `out[o + t · stride + s · L]` for output vector s.
    static void two(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int x0,
            int x1,
            int depth,
            float[] out,
            int o,
            int stride) {
        FloatVector a0 = at(out, o);
        FloatVector a1 = at(out, o + L);
        FloatVector a2 = at(out, o + 2 * L);
        FloatVector a3 = at(out, o + 3 * L);
        FloatVector b0 = at(out, o + stride);
        FloatVector b1 = at(out, o + stride + L);
        FloatVector b2 = at(out, o + stride + 2 * L);
        FloatVector b3 = at(out, o + stride + 3 * L);
        for (int k = 0; k < depth; k++) {
            long step = 64L * k;
            FloatVector p0 = floats(w0 + step);
            FloatVector p1 = floats(w1 + step);
            FloatVector p2 = floats(w2 + step);
            FloatVector p3 = floats(w3 + step);
            FloatVector s = all(x[x0 + k]);
            a0 = p0.fma(s, a0);
            a1 = p1.fma(s, a1);
            a2 = p2.fma(s, a2);
            a3 = p3.fma(s, a3);
            s = all(x[x1 + k]);
            b0 = p0.fma(s, b0);
            b1 = p1.fma(s, b1);
            b2 = p2.fma(s, b2);
            b3 = p3.fma(s, b3);
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

    /// Four rows of `x`, starting at `x0` … `x3`, adding to `out[o + t · stride + s · L]` for output vector s.
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
            int depth,
            float[] out,
            int o,
            int stride) {
        FloatVector a0 = at(out, o);
        FloatVector a1 = at(out, o + L);
        FloatVector a2 = at(out, o + 2 * L);
        FloatVector a3 = at(out, o + 3 * L);
        FloatVector b0 = at(out, o + stride);
        FloatVector b1 = at(out, o + stride + L);
        FloatVector b2 = at(out, o + stride + 2 * L);
        FloatVector b3 = at(out, o + stride + 3 * L);
        FloatVector c0 = at(out, o + 2 * stride);
        FloatVector c1 = at(out, o + 2 * stride + L);
        FloatVector c2 = at(out, o + 2 * stride + 2 * L);
        FloatVector c3 = at(out, o + 2 * stride + 3 * L);
        FloatVector d0 = at(out, o + 3 * stride);
        FloatVector d1 = at(out, o + 3 * stride + L);
        FloatVector d2 = at(out, o + 3 * stride + 2 * L);
        FloatVector d3 = at(out, o + 3 * stride + 3 * L);
        for (int k = 0; k < depth; k++) {
            long step = 64L * k;
            FloatVector p0 = floats(w0 + step);
            FloatVector p1 = floats(w1 + step);
            FloatVector p2 = floats(w2 + step);
            FloatVector p3 = floats(w3 + step);
            FloatVector s = all(x[x0 + k]);
            a0 = p0.fma(s, a0);
            a1 = p1.fma(s, a1);
            a2 = p2.fma(s, a2);
            a3 = p3.fma(s, a3);
            s = all(x[x1 + k]);
            b0 = p0.fma(s, b0);
            b1 = p1.fma(s, b1);
            b2 = p2.fma(s, b2);
            b3 = p3.fma(s, b3);
            s = all(x[x2 + k]);
            c0 = p0.fma(s, c0);
            c1 = p1.fma(s, c1);
            c2 = p2.fma(s, c2);
            c3 = p3.fma(s, c3);
            s = all(x[x3 + k]);
            d0 = p0.fma(s, d0);
            d1 = p1.fma(s, d1);
            d2 = p2.fma(s, d2);
            d3 = p3.fma(s, d3);
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

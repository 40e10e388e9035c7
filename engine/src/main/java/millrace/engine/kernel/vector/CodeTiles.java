package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.at;
import static millrace.engine.kernel.vector.Lanes.floats;
import static millrace.engine.kernel.vector.Lanes.words;
import static millrace.engine.kernel.vector.Lanes.zero;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import millrace.engine.format.PackedPanel;

/// One row of input by four panels of codes, decoded in registers. For vectors of 16 lanes only: narrower ones have no
/// table of 16 entries in one of them, and take the way of [CodedProjection].
///
/// Each body has one depth of four panels, and the loops around it count within a word: more of it in one body would
/// not be compiled to vectors.
final class CodeTiles {
    private CodeTiles() {}

    /// Blocks of 8 depths without escapes. `w0 … w3` are the first blocks of four panels, `t0 … t3` their tables; goes
    /// on from what `out[o + 16 p + lane]` holds.
    static void packed(
            long w0,
            long w1,
            long w2,
            long w3,
            long t0,
            long t1,
            long t2,
            long t3,
            int blocks,
            float[] x,
            int x0,
            float[] out,
            int o) {
        IntVector e0 = words(t0);
        IntVector e1 = words(t1);
        IntVector e2 = words(t2);
        IntVector e3 = words(t3);
        FloatVector a0 = at(out, o);
        FloatVector a1 = at(out, o + L);
        FloatVector a2 = at(out, o + 2 * L);
        FloatVector a3 = at(out, o + 3 * L);
        for (int b = 0; b < blocks; b++) {
            long block = (long) PackedPanel.BLOCK_BYTES * b;
            IntVector c0 = words(w0 + block);
            IntVector c1 = words(w1 + block);
            IntVector c2 = words(w2 + block);
            IntVector c3 = words(w3 + block);
            for (int h = 0; h < 2; h++) {
                long rest = block + 64 + 64 * h;
                IntVector r0 = words(w0 + rest);
                IntVector r1 = words(w1 + rest);
                IntVector r2 = words(w2 + rest);
                IntVector r3 = words(w3 + rest);
                for (int j = 0; j < 4; j++) {
                    FloatVector s = all(x[x0 + 8 * b + 4 * h + j]);
                    a0 = packed(c0, r0, e0).fma(s, a0);
                    a1 = packed(c1, r1, e1).fma(s, a1);
                    a2 = packed(c2, r2, e2).fma(s, a2);
                    a3 = packed(c3, r3, e3).fma(s, a3);
                    c0 = c0.lanewise(VectorOperators.LSHR, 4);
                    c1 = c1.lanewise(VectorOperators.LSHR, 4);
                    c2 = c2.lanewise(VectorOperators.LSHR, 4);
                    c3 = c3.lanewise(VectorOperators.LSHR, 4);
                    r0 = r0.lanewise(VectorOperators.ROL, 8);
                    r1 = r1.lanewise(VectorOperators.ROL, 8);
                    r2 = r2.lanewise(VectorOperators.ROL, 8);
                    r3 = r3.lanewise(VectorOperators.ROL, 8);
                }
            }
        }
        a0.intoArray(out, o);
        a1.intoArray(out, o + L);
        a2.intoArray(out, o + 2 * L);
        a3.intoArray(out, o + 3 * L);
    }

    private static FloatVector packed(IntVector codes, IntVector rest, IntVector exponents) {
        return rest.and(0x807F_0000).or(codes.selectFrom(exponents)).reinterpretAsFloats();
    }

    /// One group: `out = fma(scale, Σ code · x, out)`. `w0 … w3` are its first words in four panels, `s0 … s3` its
    /// scales in F32.
    static void int8(
            long w0,
            long w1,
            long w2,
            long w3,
            long s0,
            long s1,
            long s2,
            long s3,
            int rows,
            float[] x,
            int x0,
            float[] out,
            int o) {
        FloatVector a0 = zero();
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        for (int j = 0; j < rows; j++) {
            long row = 64L * j;
            IntVector c0 = words(w0 + row);
            IntVector c1 = words(w1 + row);
            IntVector c2 = words(w2 + row);
            IntVector c3 = words(w3 + row);
            for (int h = 0; h < 4; h++) {
                FloatVector s = all(x[x0 + 4 * j + h]);
                a0 = Decoder.int8(c0, 24 - 8 * h).fma(s, a0);
                a1 = Decoder.int8(c1, 24 - 8 * h).fma(s, a1);
                a2 = Decoder.int8(c2, 24 - 8 * h).fma(s, a2);
                a3 = Decoder.int8(c3, 24 - 8 * h).fma(s, a3);
            }
        }
        floats(s0).fma(a0, at(out, o)).intoArray(out, o);
        floats(s1).fma(a1, at(out, o + L)).intoArray(out, o + L);
        floats(s2).fma(a2, at(out, o + 2 * L)).intoArray(out, o + 2 * L);
        floats(s3).fma(a3, at(out, o + 3 * L)).intoArray(out, o + 3 * L);
    }

    /// As [#int8], with 8 depths in a row of words.
    static void int4(
            long w0,
            long w1,
            long w2,
            long w3,
            long s0,
            long s1,
            long s2,
            long s3,
            int rows,
            float[] x,
            int x0,
            float[] out,
            int o) {
        IntVector e = Decoder.int4Table();
        FloatVector a0 = zero();
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        for (int half = 0; half < 2 * rows; half++) {
            // Depths 4 to 7 are the high bits of the bytes.
            long row = 64L * (half >> 1);
            int shift = 4 * (half & 1);
            IntVector c0 = words(w0 + row).lanewise(VectorOperators.LSHR, shift);
            IntVector c1 = words(w1 + row).lanewise(VectorOperators.LSHR, shift);
            IntVector c2 = words(w2 + row).lanewise(VectorOperators.LSHR, shift);
            IntVector c3 = words(w3 + row).lanewise(VectorOperators.LSHR, shift);
            for (int h = 0; h < 4; h++) {
                FloatVector s = all(x[x0 + 4 * half + h]);
                a0 = c0.selectFrom(e).reinterpretAsFloats().fma(s, a0);
                a1 = c1.selectFrom(e).reinterpretAsFloats().fma(s, a1);
                a2 = c2.selectFrom(e).reinterpretAsFloats().fma(s, a2);
                a3 = c3.selectFrom(e).reinterpretAsFloats().fma(s, a3);
                c0 = c0.lanewise(VectorOperators.LSHR, 8);
                c1 = c1.lanewise(VectorOperators.LSHR, 8);
                c2 = c2.lanewise(VectorOperators.LSHR, 8);
                c3 = c3.lanewise(VectorOperators.LSHR, 8);
            }
        }
        floats(s0).fma(a0, at(out, o)).intoArray(out, o);
        floats(s1).fma(a1, at(out, o + L)).intoArray(out, o + L);
        floats(s2).fma(a2, at(out, o + 2 * L)).intoArray(out, o + 2 * L);
        floats(s3).fma(a3, at(out, o + 3 * L)).intoArray(out, o + 3 * L);
    }

    /// As [#int8].
    static void fp8(
            long w0,
            long w1,
            long w2,
            long w3,
            long s0,
            long s1,
            long s2,
            long s3,
            int rows,
            float[] x,
            int x0,
            float[] out,
            int o) {
        FloatVector a0 = zero();
        FloatVector a1 = a0;
        FloatVector a2 = a0;
        FloatVector a3 = a0;
        for (int j = 0; j < rows; j++) {
            long row = 64L * j;
            IntVector c0 = words(w0 + row);
            IntVector c1 = words(w1 + row);
            IntVector c2 = words(w2 + row);
            IntVector c3 = words(w3 + row);
            for (int h = 0; h < 4; h++) {
                FloatVector s = all(x[x0 + 4 * j + h]);
                a0 = Decoder.fp8(c0, 24 - 8 * h).fma(s, a0);
                a1 = Decoder.fp8(c1, 24 - 8 * h).fma(s, a1);
                a2 = Decoder.fp8(c2, 24 - 8 * h).fma(s, a2);
                a3 = Decoder.fp8(c3, 24 - 8 * h).fma(s, a3);
            }
        }
        floats(s0).fma(a0, at(out, o)).intoArray(out, o);
        floats(s1).fma(a1, at(out, o + L)).intoArray(out, o + L);
        floats(s2).fma(a2, at(out, o + 2 * L)).intoArray(out, o + 2 * L);
        floats(s3).fma(a3, at(out, o + 3 * L)).intoArray(out, o + 3 * L);
    }

    /// `out = fma(scale, part, out)` of so many rows of four vectors, and the parts zero again.
    static void scale(float[] parts, long s0, long s1, long s2, long s3, int rows, float[] out, int o, int stride) {
        FloatVector scale0 = floats(s0);
        FloatVector scale1 = floats(s1);
        FloatVector scale2 = floats(s2);
        FloatVector scale3 = floats(s3);
        FloatVector zero = zero();
        for (int r = 0; r < rows; r++) {
            int i = o + r * stride;
            scale0.fma(at(parts, i), at(out, i)).intoArray(out, i);
            scale1.fma(at(parts, i + L), at(out, i + L)).intoArray(out, i + L);
            scale2.fma(at(parts, i + 2 * L), at(out, i + 2 * L)).intoArray(out, i + 2 * L);
            scale3.fma(at(parts, i + 3 * L), at(out, i + 3 * L)).intoArray(out, i + 3 * L);
            zero.intoArray(parts, i);
            zero.intoArray(parts, i + L);
            zero.intoArray(parts, i + 2 * L);
            zero.intoArray(parts, i + 3 * L);
        }
    }
}

package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.F;
import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.even;
import static millrace.engine.kernel.vector.Lanes.floats;
import static millrace.engine.kernel.vector.Lanes.odd;
import static millrace.engine.kernel.vector.Lanes.words;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import millrace.engine.kernel.TileFormat;

/// Cache tiles to F32, `lanes` floats for each depth.
final class CacheTiles {
    /// By format. Objects of several classes, called from one place, because the compiler does not inline such a call:
    /// all formats in one method would be too much for it.
    private static final Form[] FORMS = new Form[TileFormat.values().length];

    static {
        FORMS[TileFormat.F32.ordinal()] = CacheTiles::f32;
        FORMS[TileFormat.BF16.ordinal()] = CacheTiles::bf16;
        FORMS[TileFormat.INT8.ordinal()] = CacheTiles::int8;
        FORMS[TileFormat.INT4.ordinal()] = (address, lanes, out, o) -> {
            int4(address, 16, lanes, out, o);
            int4(address, 0, lanes, out, o + 4 * lanes);
        };
        FORMS[TileFormat.INT4_PAIRS.ordinal()] = (address, lanes, out, o) -> {
            pairs(address, 4, lanes, out, o);
            pairs(address, 0, lanes, out, o + 16);
        };
        FORMS[TileFormat.FP8.ordinal()] = CacheTiles::fp8;
    }

    private CacheTiles() {}

    /// One group of depths.
    private interface Form {
        void decode(long address, int lanes, float[] out, int o);
    }

    static void decode(TileFormat format, long tile, int groups, int lanes, float[] out, int offset) {
        Form form = FORMS[format.ordinal()];
        long bytes = format.bytes(1, lanes);
        for (int g = 0; g < groups; g++) {
            form.decode(tile + bytes * g, lanes, out, offset + g * format.perWord() * lanes);
        }
    }

    private static void f32(long address, int lanes, float[] out, int o) {
        for (int lane = 0; lane < lanes; lane += L) {
            floats(address + 4L * lane).intoArray(out, o + lane);
        }
    }

    private static void bf16(long address, int lanes, float[] out, int o) {
        for (int lane = 0; lane < lanes; lane += L) {
            IntVector word = words(address + 4L * lane);
            even(word).intoArray(out, o + lane);
            odd(word).intoArray(out, o + lanes + lane);
        }
    }

    private static void int8(long address, int lanes, float[] out, int o) {
        for (int lane = 0; lane < lanes; lane += L) {
            IntVector word = words(address + 4L * lane);
            code(word, 24, 24).intoArray(out, o + lane);
            code(word, 16, 24).intoArray(out, o + lanes + lane);
            code(word, 8, 24).intoArray(out, o + 2 * lanes + lane);
            code(word, 0, 24).intoArray(out, o + 3 * lanes + lane);
        }
    }

    /// The four codes of the lower half of a word with `shift` 16, of the upper half with 0.
    private static void int4(long address, int shift, int lanes, float[] out, int o) {
        for (int lane = 0; lane < lanes; lane += L) {
            IntVector word = words(address + 4L * lane).lanewise(VectorOperators.LSHL, shift);
            code(word, 12, 28).intoArray(out, o + lane);
            code(word, 8, 28).intoArray(out, o + lanes + lane);
            code(word, 4, 28).intoArray(out, o + 2 * lanes + lane);
            code(word, 0, 28).intoArray(out, o + 3 * lanes + lane);
        }
    }

    /// The lower codes of the bytes with `shift` 4, the upper ones with 0; 16 lanes of every 32.
    private static void pairs(long address, int shift, int lanes, float[] out, int o) {
        for (int i = 0; i < lanes / 2; i += L) {
            IntVector word = words(address + 4L * i).lanewise(VectorOperators.LSHL, shift);
            int at = o + i + i / 16 * 16;
            code(word, 24, 28).intoArray(out, at);
            code(word, 16, 28).intoArray(out, at + lanes);
            code(word, 8, 28).intoArray(out, at + 2 * lanes);
            code(word, 0, 28).intoArray(out, at + 3 * lanes);
        }
    }

    private static void fp8(long address, int lanes, float[] out, int o) {
        for (int lane = 0; lane < lanes; lane += L) {
            IntVector word = words(address + 4L * lane);
            e4m3(word, 24).intoArray(out, o + lane);
            e4m3(word, 16).intoArray(out, o + lanes + lane);
            e4m3(word, 8).intoArray(out, o + 2 * lanes + lane);
            e4m3(word, 0).intoArray(out, o + 3 * lanes + lane);
        }
    }

    private static FloatVector code(IntVector word, int left, int right) {
        IntVector signed = word.lanewise(VectorOperators.LSHL, left).lanewise(VectorOperators.ASHR, right);
        return (FloatVector) signed.convertShape(VectorOperators.I2F, F, 0);
    }

    /// Exponent and mantissa in the place that F32 has for them, and the difference of the biases by a product, which is
    /// exact.
    private static FloatVector e4m3(IntVector word, int left) {
        IntVector bits = word.lanewise(VectorOperators.LSHL, left).lanewise(VectorOperators.ASHR, 4);
        return bits.and(0x87F0_0000).reinterpretAsFloats().mul(0x1p120f);
    }
}

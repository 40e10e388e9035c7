package millrace.engine.kernel.cpu;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import millrace.engine.format.BFloat16;
import millrace.engine.format.Float8;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Hadamard;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;

/// Writes one token's keys and values into a block of the cache; every backend writes by this code.
///
/// | codes         | scale                                                  | code                                     |
/// |---------------|--------------------------------------------------------|------------------------------------------|
/// | INT8, grouped | `amax / 127`, rounded up to an F16                     | `x / scale`, half to even, within ±127   |
/// | INT8, latent  | `amax / 127`, F32                                      | the same                                 |
/// | INT4          | `−m / 8`, m = value of the largest magnitude (the      | `x / scale`, half to even, within −8 … 7 |
/// |               | first of equals), rounded away from 0 to an F16        |                                          |
/// | FP8           | the least power of two from 2⁻¹²⁰ on with              | `x / scale`, to the nearest e4m3         |
/// |               | `amax ≤ 448 · scale`                                   |                                          |
///
/// All codes under a scale of zero are zero. If a value is not finite, or its scale would not be, the scale is NaN and
/// the codes are zero: the token reads back as NaN and is not hidden.
///
/// A token has bytes of its own, in every format: tokens of one block may be written by several threads.
final class CacheWriter {
    private static final int F16_INFINITY = 0x7C00;
    private static final short F16_NAN = 0x7E00;

    /// A power of two, so that dividing by it is exact; far from where a scale or an F32 would be denormal.
    private static final float LEAST_FP8_SCALE = 0x1p-120f;

    private CacheWriter() {}

    /// @param scratch room for one head, used where what is stored is rotated
    static void write(
            CacheShape.Grouped shape,
            long block,
            int slot,
            float[] k,
            int kOffset,
            float[] v,
            int vOffset,
            float[] scratch) {
        if (shape.rotated()) {
            writeKey(shape, block, slot, rotated(shape, k, kOffset, scratch), 0);
            writeValue(shape, block, slot, rotated(shape, v, vOffset, scratch), 0);
        } else {
            writeKey(shape, block, slot, k, kOffset);
            writeValue(shape, block, slot, v, vOffset);
        }
    }

    private static float[] rotated(CacheShape.Grouped shape, float[] x, int offset, float[] scratch) {
        System.arraycopy(x, offset, scratch, 0, shape.headDim());
        Hadamard.rotate(scratch, 0, shape.headDim());
        return scratch;
    }

    private static void writeKey(CacheShape.Grouped shape, long block, int slot, float[] k, int from) {
        writeKey(shape.format(), shape.headDim(), block, shape.keyScaleOffset(), slot, k, from);
    }

    static void write(CacheShape.Keys shape, long block, int slot, float[] k, int from) {
        writeKey(shape.format(), shape.dim(), block, shape.scaleOffset(), slot, k, from);
    }

    /// Token = lane of 16, dimension = depth.
    private static void writeKey(
            TileFormat format, int n, long block, long scaleOffset, int slot, float[] k, int from) {
        long lane = block + 4L * slot;
        long scales = block + scaleOffset + 2L * slot;
        switch (format) {
            case F32 -> writeFloats(lane, 64, k, from, n);
            case BF16 -> {
                for (int d = 0; d < n; d++) {
                    Memory.ALL.set(JAVA_SHORT, lane + 64L * (d >> 1) + 2 * (d & 1), BFloat16.fromFloat(k[from + d]));
                }
            }
            case INT8 -> {
                float scale = writeHalf(scales, amax(k, from, n) / 127f);
                for (int d = 0; d < n; d++) {
                    Memory.ALL.set(JAVA_BYTE, lane + 64L * (d >> 2) + (d & 3), (byte) code(k[from + d], scale, -127, 127));
                }
            }
            case INT4 -> {
                for (int d = 0; d < n; d += CacheShape.Grouped.INT4_GROUP) {
                    float scale = writeInt4Scale(scales + 2L * CacheShape.TOKENS * d / CacheShape.Grouped.INT4_GROUP, k, from + d);
                    for (int i = d; i < d + CacheShape.Grouped.INT4_GROUP; i += 2) {
                        int pair = nibbles(k[from + i], k[from + i + 1], scale);
                        Memory.ALL.set(JAVA_BYTE, lane + 64L * (i >> 3) + (i >> 1 & 3), (byte) pair);
                    }
                }
            }
            default -> throw new IllegalArgumentException("keys in " + format);
        }
    }

    /// Token = depth of 16, dimension = lane.
    private static void writeValue(CacheShape.Grouped shape, long block, int slot, float[] v, int from) {
        int n = shape.headDim();
        long tile = block + shape.valueOffset();
        long scales = block + shape.valueScaleOffset() + 2L * slot;
        switch (shape.valueFormat()) {
            case INT8 -> {
                float scale = writeHalf(scales, amax(v, from, n) / 127f);
                writeCodesAsDepth(tile, shape.valueLanes(), slot, 0, v, from, n, scale);
            }
            case INT4_PAIRS -> {
                long row = tile + 2L * (slot >> 2) * n + (slot & 3);
                int half = CacheShape.Grouped.INT4_GROUP / 2;
                for (int d = 0; d < n; d += 2 * half) {
                    float scale = writeInt4Scale(scales + 2L * CacheShape.TOKENS * d / (2 * half), v, from + d);
                    for (int i = 0; i < half; i++) {
                        int pair = nibbles(v[from + d + i], v[from + d + half + i], scale);
                        Memory.ALL.set(JAVA_BYTE, row + 4L * (d / 2 + i), (byte) pair);
                    }
                }
            }
            default -> writeAsDepth(shape.valueFormat(), tile, shape.valueLanes(), slot, v, from, n);
        }
    }

    static void write(CacheShape.Latent shape, long block, int slot, float[] c, int cOffset, float[] k, int kOffset) {
        int lanes = shape.latentLanes();
        long rope = block + shape.ropeOffset();
        long scales = block + shape.scaleOffset() + 4L * slot;
        if (shape.plain()) {
            float amax = Math.max(amax(c, cOffset, shape.rank()), amax(k, kOffset, shape.ropeDim()));
            float scale = write(scales, fp8Scale(amax));
            writeFp8AsDepth(block, lanes, slot, 0, c, cOffset, shape.rank(), scale);
            writeFp8AsDepth(rope, shape.ropeLanes(), slot, 0, k, kOffset, shape.ropeDim(), scale);
            return;
        }
        if (shape.latentFormat().scaled()) {
            for (int g = 0; g < shape.scaleGroups(); g++) {
                int from = g * CacheShape.Latent.GROUP;
                int n = Math.min(CacheShape.Latent.GROUP, shape.rank() - from);
                float amax = amax(c, cOffset + from, n);
                long at = scales + 4L * g * CacheShape.TOKENS;
                if (shape.latentFormat() == TileFormat.INT8) {
                    writeCodesAsDepth(block, lanes, slot, from, c, cOffset + from, n, write(at, amax / 127f));
                } else {
                    writeFp8AsDepth(block, lanes, slot, from, c, cOffset + from, n, write(at, fp8Scale(amax)));
                }
            }
        } else {
            writeAsDepth(shape.latentFormat(), block, lanes, slot, c, cOffset, shape.rank());
        }
        writeAsDepth(shape.ropeFormat(), rope, shape.ropeLanes(), slot, k, kOffset, shape.ropeDim());
    }

    /// The largest magnitude; NaN if there is one.
    static float amax(float[] x, int offset, int n) {
        float amax = 0;
        for (int i = 0; i < n; i++) {
            amax = Math.max(amax, Math.abs(x[offset + i]));
        }
        return amax;
    }

    /// Writes a scale and returns what it reads back as.
    private static float write(long address, float scale) {
        float kept = Float.isFinite(scale) ? scale : Float.NaN;
        Memory.ALL.set(JAVA_FLOAT, address, kept);
        return kept;
    }

    /// Writes the F16 that is not nearer to 0 and returns its value.
    private static float writeHalf(long address, float scale) {
        short bits = halfAwayFromZero(scale);
        Memory.ALL.set(JAVA_SHORT, address, bits);
        return Float.float16ToFloat(bits);
    }

    private static short halfAwayFromZero(float scale) {
        if (!Float.isFinite(scale)) {
            return F16_NAN;
        }
        short bits = Float.floatToFloat16(scale);
        if (Math.abs(Float.float16ToFloat(bits)) < Math.abs(scale)) {
            bits++;
        }
        return (bits & F16_INFINITY) == F16_INFINITY ? F16_NAN : bits;
    }

    private static float writeInt4Scale(long address, float[] x, int from) {
        float m = 0;
        boolean finite = true;
        for (int i = from; i < from + CacheShape.Grouped.INT4_GROUP; i++) {
            finite &= Float.isFinite(x[i]);
            m = Math.abs(x[i]) > Math.abs(m) ? x[i] : m;
        }
        return writeHalf(address, finite ? m * -0.125f : Float.NaN);
    }

    private static float fp8Scale(float amax) {
        if (!Float.isFinite(amax) || amax == 0) {
            return amax;
        }
        // 448 = 1.75 · 2⁸.
        float power = Math.scalb(1f, Math.getExponent(amax) - 8);
        float scale = amax <= Float8.MAX * power ? power : 2 * power;
        return Math.max(scale, LEAST_FP8_SCALE);
    }

    /// Zero under a scale of zero, and where the scale is NaN.
    private static int code(float value, float scale, int least, int most) {
        if (scale == 0) {
            return 0;
        }
        return (int) Math.max(least, Math.min(most, Math.rint((double) (value / scale))));
    }

    private static int nibbles(float low, float high, float scale) {
        return code(low, scale, -8, 7) & 15 | (code(high, scale, -8, 7) & 15) << 4;
    }

    private static void writeFloats(long address, int stride, float[] x, int offset, int n) {
        for (int d = 0; d < n; d++) {
            Memory.ALL.set(JAVA_FLOAT, address + (long) stride * d, x[offset + d]);
        }
    }

    private static void writeAsDepth(TileFormat format, long tile, int lanes, int slot, float[] x, int offset, int n) {
        if (format == TileFormat.F32) {
            writeFloats(tile + 4L * slot * lanes, 4, x, offset, n);
        } else {
            long row = tile + 4L * (slot >> 1) * lanes + 2 * (slot & 1);
            for (int d = 0; d < n; d++) {
                Memory.ALL.set(JAVA_SHORT, row + 4L * d, BFloat16.fromFloat(x[offset + d]));
            }
        }
    }

    private static void writeCodesAsDepth(
            long tile, int lanes, int slot, int fromLane, float[] x, int offset, int n, float scale) {
        long row = tile + 4L * (slot >> 2) * lanes + (slot & 3);
        for (int d = 0; d < n; d++) {
            Memory.ALL.set(JAVA_BYTE, row + 4L * (fromLane + d), (byte) code(x[offset + d], scale, -127, 127));
        }
    }

    private static void writeFp8AsDepth(
            long tile, int lanes, int slot, int fromLane, float[] x, int offset, int n, float scale) {
        long row = tile + 4L * (slot >> 2) * lanes + (slot & 3);
        boolean zero = scale == 0 || Float.isNaN(scale);
        for (int d = 0; d < n; d++) {
            byte code = zero ? 0 : Float8.fromFloat(x[offset + d] / scale);
            Memory.ALL.set(JAVA_BYTE, row + 4L * (fromLane + d), code);
        }
    }
}

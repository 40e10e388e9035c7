package millrace.engine.kernel.cpu;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import millrace.engine.format.BFloat16;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;

/// Writes one token's keys and values into a block of the cache; every backend writes by this code.
///
/// INT8: `scale = amax / 127`, `code = round(x / scale)`, half to even, clamped to ±127; a scale of zero gives codes of
/// zero. A value that is not finite makes the scale so, and the token reads back as NaN: it is not hidden.
final class CacheWriter {
    private CacheWriter() {}

    static void write(CacheShape.Grouped shape, long block, int slot, float[] k, int kOffset, float[] v, int vOffset) {
        int n = shape.headDim();
        TileFormat format = shape.format();
        if (format == TileFormat.INT8) {
            long scales = block + shape.scaleOffset() + 4L * slot;
            float keyScale = scale(k, kOffset, n);
            float valueScale = scale(v, vOffset, n);
            Memory.ALL.set(JAVA_FLOAT, scales, keyScale);
            Memory.ALL.set(JAVA_FLOAT, scales + 4L * CacheShape.TOKENS, valueScale);
            writeCodesAsLane(block, slot, k, kOffset, n, keyScale);
            writeCodesAsDepth(block + shape.valueOffset(), shape.valueLanes(), slot, 0, v, vOffset, n, valueScale);
        } else {
            writeAsLane(format, block, slot, k, kOffset, n);
            writeAsDepth(format, block + shape.valueOffset(), shape.valueLanes(), slot, v, vOffset, n);
        }
    }

    static void write(CacheShape.Latent shape, long block, int slot, float[] c, int cOffset, float[] k, int kOffset) {
        int lanes = shape.latentLanes();
        if (shape.latentFormat() == TileFormat.INT8) {
            for (int g = 0; g < shape.groups(); g++) {
                int from = g * CacheShape.Latent.GROUP;
                int n = Math.min(CacheShape.Latent.GROUP, shape.rank() - from);
                float scale = scale(c, cOffset + from, n);
                Memory.ALL.set(JAVA_FLOAT, block + shape.scaleOffset() + 4L * (g * CacheShape.TOKENS + slot), scale);
                writeCodesAsDepth(block, lanes, slot, from, c, cOffset + from, n, scale);
            }
        } else {
            writeAsDepth(shape.latentFormat(), block, lanes, slot, c, cOffset, shape.rank());
        }
        writeAsDepth(
                shape.ropeFormat(), block + shape.ropeOffset(), shape.ropeLanes(), slot, k, kOffset, shape.ropeDim());
    }

    static float scale(float[] x, int offset, int n) {
        float amax = 0;
        for (int i = 0; i < n; i++) {
            amax = Math.max(amax, Math.abs(x[offset + i]));
        }
        return amax / 127f;
    }

    private static byte code(float value, float scale) {
        if (scale == 0) {
            return 0;
        }
        double rounded = Math.rint(value / scale);
        return (byte) Math.max(-127, Math.min(127, rounded));
    }

    /// Token = lane of 16, dimension = depth.
    private static void writeAsLane(TileFormat format, long tile, int slot, float[] x, int offset, int n) {
        if (format == TileFormat.F32) {
            for (int d = 0; d < n; d++) {
                Memory.ALL.set(JAVA_FLOAT, tile + 64L * d + 4L * slot, x[offset + d]);
            }
        } else {
            for (int d = 0; d < n; d++) {
                long at = tile + 64L * (d >> 1) + 4L * slot + 2 * (d & 1);
                Memory.ALL.set(JAVA_SHORT, at, BFloat16.fromFloat(x[offset + d]));
            }
        }
    }

    private static void writeCodesAsLane(long tile, int slot, float[] x, int offset, int n, float scale) {
        for (int d = 0; d < n; d++) {
            Memory.ALL.set(JAVA_BYTE, tile + 64L * (d >> 2) + 4L * slot + (d & 3), code(x[offset + d], scale));
        }
    }

    /// Token = depth of 16, dimension = lane.
    private static void writeAsDepth(TileFormat format, long tile, int lanes, int slot, float[] x, int offset, int n) {
        if (format == TileFormat.F32) {
            long row = tile + 4L * slot * lanes;
            for (int d = 0; d < n; d++) {
                Memory.ALL.set(JAVA_FLOAT, row + 4L * d, x[offset + d]);
            }
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
            Memory.ALL.set(JAVA_BYTE, row + 4L * (fromLane + d), code(x[offset + d], scale));
        }
    }
}

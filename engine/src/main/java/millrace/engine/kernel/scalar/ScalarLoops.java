package millrace.engine.kernel.scalar;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.util.Arrays;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Panels;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.ExpMath;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.TileLoops;

/// The inner loops as their contract says them. Other backends must give these bits.
public final class ScalarLoops implements TileLoops {
    @Override
    public void project(
            Matrix w, int firstPanel, int panels, float[] x, int xOffset, int xStride, int rows, float[] out) {
        float[] codes = new float[w.cols()];
        float[] scales = new float[Math.max(1, w.format().groups(w.cols()))];
        for (int p = 0; p < panels; p++) {
            int panel = firstPanel + p;
            WeightFormat format = w.panelFormat(panel);
            for (int lane = 0; lane < Matrix.PANEL_ROWS; lane++) {
                Panels.codes(format, w.data(), w.panelOffset(panel), w.cols(), lane, codes, 0);
                for (int g = 0; g < format.groups(w.cols()); g++) {
                    scales[g] = Panels.scale(format, w.data(), w.panelOffset(panel), lane, g);
                }
                for (int r = 0; r < rows; r++) {
                    int from = xOffset + r * xStride;
                    out[r * TILE + p * Matrix.PANEL_ROWS + lane] = format.grouped()
                            ? grouped(codes, scales, format.group(), x, from)
                            : plain(codes, 0, codes.length, x, from);
                }
            }
        }
    }

    /// One chain of products from 0.
    private static float plain(float[] weights, int k0, int k1, float[] x, int from) {
        float acc = 0;
        for (int k = k0; k < k1; k++) {
            acc = Math.fma(weights[k], x[from + k], acc);
        }
        return acc;
    }

    /// A chain over groups of chains over their columns.
    private static float grouped(float[] codes, float[] scales, int group, float[] x, int from) {
        float acc = 0;
        for (int k = 0; k < codes.length; k += group) {
            float part = plain(codes, k, Math.min(codes.length, k + group), x, from);
            acc = Math.fma(scales[k / group], part, acc);
        }
        return acc;
    }

    @Override
    public float sumOfSquares(float[] x, int offset, int n, float[] partials) {
        Arrays.fill(partials, 0, 16, 0);
        for (int i = 0; i < n; i++) {
            partials[i % 16] = Math.fma(x[offset + i], x[offset + i], partials[i % 16]);
        }
        return Loops.tree(partials);
    }

    @Override
    public void swiglu(float[] gate, int gateOffset, float[] up, int upOffset, int n) {
        for (int i = 0; i < n; i++) {
            float g = gate[gateOffset + i];
            gate[gateOffset + i] = g / (1f + ExpMath.exp(-g)) * up[upOffset + i];
        }
    }

    @Override
    public float softmax(float[] scores, int offset, int n, float scale, float[] partials) {
        float max = Float.NEGATIVE_INFINITY;
        for (int i = 0; i < n; i++) {
            scores[offset + i] *= scale;
            max = Math.max(max, scores[offset + i]);
        }
        Arrays.fill(partials, 0, 16, 0);
        for (int i = 0; i < n; i++) {
            float e = ExpMath.exp(scores[offset + i] - max);
            scores[offset + i] = e;
            partials[i % 16] += e;
        }
        return Loops.tree(partials);
    }

    @Override
    public void decode(TileFormat format, long tile, int depth, int lanes, float[] out, int offset) {
        for (int d = 0; d < format.groups(depth) * format.perWord(); d++) {
            for (int lane = 0; lane < lanes; lane++) {
                out[offset + d * lanes + lane] = element(format, tile, d, lanes, lane);
            }
        }
    }

    @Override
    public void score(
            float[] q,
            int qOffset,
            int qStride,
            int queries,
            float[] keys,
            int kOffset,
            int depth,
            float[] scores,
            int sOffset,
            int sStride,
            boolean fresh) {
        for (int i = 0; i < queries; i++) {
            for (int lane = 0; lane < 16; lane++) {
                int s = sOffset + i * sStride + lane;
                float acc = fresh ? 0 : scores[s];
                for (int d = 0; d < depth; d++) {
                    acc = Math.fma(q[qOffset + i * qStride + d], keys[kOffset + 16 * d + lane], acc);
                }
                scores[s] = acc;
            }
        }
    }

    @Override
    public void fold(
            float[] scales,
            int scOffset,
            float[] parts,
            int pOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride,
            boolean fresh) {
        for (int i = 0; i < queries; i++) {
            for (int lane = 0; lane < 16; lane++) {
                int s = sOffset + i * sStride + lane;
                scores[s] = Math.fma(scales[scOffset + lane], parts[pOffset + 16 * i + lane], fresh ? 0 : scores[s]);
            }
        }
    }

    @Override
    public void accumulate(
            float[] p,
            int pOffset,
            int tokens,
            float[] values,
            int vOffset,
            int vStride,
            int lanes,
            float[] acc,
            int aOffset) {
        for (int t = 0; t < tokens; t++) {
            for (int d = 0; d < lanes; d++) {
                acc[aOffset + d] = Math.fma(p[pOffset + t], values[vOffset + t * vStride + d], acc[aOffset + d]);
            }
        }
    }

    @Override
    public void fixedScores(float[] parts, int high, int low, int scales, float unit, float[] scores, int sOffset) {
        for (int l = 0; l < 16; l++) {
            scores[sOffset + l] = Math.fma(256f, parts[high + l], parts[low + l]) * unit * parts[scales + l];
        }
    }

    @Override
    public void fixedSums(float[] parts, int high, int low, int lanes, float unit, float[] acc, int aOffset) {
        for (int d = 0; d < lanes; d++) {
            acc[aOffset + d] = Math.fma(unit, Math.fma(256f, parts[high + d], parts[low + d]), acc[aOffset + d]);
        }
    }

    @Override
    public void weigh(
            float[] dots,
            int dOffset,
            int dStride,
            int heads,
            int n,
            float[] weights,
            int wOffset,
            float[] out,
            int oOffset) {
        for (int t = 0; t < n; t++) {
            float acc = 0;
            for (int h = 0; h < heads; h++) {
                acc = Math.fma(weights[wOffset + h], Math.max(0, dots[dOffset + h * dStride + t]), acc);
            }
            out[oOffset + t] = acc + 0f;
        }
    }

    @Override
    public void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        for (int i = 0; i < count; i++) {
            int position = positions[first + i];
            long from = pages[position / CacheShape.TOKENS] + blockOffset;
            long block = to + i / CacheShape.TOKENS * shape.blockBytes();
            int slot = position % CacheShape.TOKENS;
            int toSlot = i % CacheShape.TOKENS;
            long rope = shape.ropeOffset();
            copy(shape.latentFormat(), shape.latentLanes(), from, slot, block, toSlot);
            copy(shape.ropeFormat(), shape.ropeLanes(), from + rope, slot, block + rope, toSlot);
            for (int g = 0; g < shape.scaleGroups(); g++) {
                long scales = shape.scaleOffset() + 4L * CacheShape.TOKENS * g;
                int scale = Memory.ALL.get(JAVA_INT, from + scales + 4L * slot);
                Memory.ALL.set(JAVA_INT, block + scales + 4L * toSlot, scale);
            }
        }
    }

    /// One depth of a tile of 16 to another depth of another tile.
    private static void copy(TileFormat format, int lanes, long from, int depth, long to, int toDepth) {
        int perWord = format.perWord();
        int bytes = 4 / perWord;
        long source = from + 4L * (depth / perWord) * lanes + depth % perWord * bytes;
        long target = to + 4L * (toDepth / perWord) * lanes + toDepth % perWord * bytes;
        for (int lane = 0; lane < lanes; lane++) {
            for (int i = 0; i < bytes; i++) {
                Memory.ALL.set(JAVA_BYTE, target + 4L * lane + i, Memory.ALL.get(JAVA_BYTE, source + 4L * lane + i));
            }
        }
    }

    private static float element(TileFormat format, long tile, int depth, int lanes, int lane) {
        int perWord = format.perWord();
        int part = depth % perWord;
        if (format == TileFormat.INT4_PAIRS) {
            long word = (long) (depth / perWord) * (lanes / 2) + lane / 32 * 16 + lane % 16;
            return nibble(Memory.ALL.get(JAVA_INT, tile + 4 * word), 2 * part + lane / 16 % 2);
        }
        int word = Memory.ALL.get(JAVA_INT, tile + 4 * ((long) (depth / perWord) * lanes + lane));
        return switch (format) {
            case F32 -> Float.intBitsToFloat(word);
            case BF16 -> BFloat16.toFloat((short) (word >> 16 * part));
            case INT8 -> (byte) (word >> 8 * part);
            case INT4 -> nibble(word, part);
            case FP8 -> e4m3((byte) (word >> 8 * part));
            case INT4_PAIRS -> throw new IllegalStateException();
        };
    }

    private static int nibble(int word, int i) {
        return word << 28 - 4 * i >> 28;
    }

    /// Without NaN, so that the code alone decides in every lane.
    private static float e4m3(byte code) {
        return Float.intBitsToFloat((code & 0x80) << 24 | (code & 0x7F) << 20) * 0x1p120f;
    }
}

package millrace.engine.kernel.vector;

import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.PARTS;
import static millrace.engine.kernel.vector.Lanes.all;
import static millrace.engine.kernel.vector.Lanes.at;
import static millrace.engine.kernel.vector.Lanes.even;
import static millrace.engine.kernel.vector.Lanes.words;

import java.util.Arrays;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.TileLoops;

/// The inner loops in vectors of 128, 256 or 512 bits; same bits as the scalar ones at every width.
public final class VectorLoops implements TileLoops {
    /// Width of the vectors in bits.
    public static int bits() {
        return L * Float.SIZE;
    }

    private final ThreadLocal<CodedProjection> coded = ThreadLocal.withInitial(CodedProjection::new);

    @Override
    public void project(
            Matrix w, int firstPanel, int panels, float[] x, int xOffset, int xStride, int rows, float[] out) {
        if (w.format() != WeightFormat.BF16 && w.format() != WeightFormat.F32) {
            coded.get().project(w, firstPanel, panels, x, xOffset, xStride, rows, out);
            return;
        }
        int last = panels * PARTS - 1;
        for (int strip = 0; strip <= last; strip += 4) {
            // Beyond the last strip the last is computed again: its results land where nobody looks.
            long w0 = strip(w, firstPanel, strip);
            long w1 = strip(w, firstPanel, Math.min(strip + 1, last));
            long w2 = strip(w, firstPanel, Math.min(strip + 2, last));
            long w3 = strip(w, firstPanel, Math.min(strip + 3, last));
            if (w.format() == WeightFormat.BF16) {
                bf16(w0, w1, w2, w3, x, xOffset, xStride, w.cols() / 2, rows, out, strip * L);
                if (w.cols() % 2 != 0) {
                    int k = w.cols() - 1;
                    long at = 64L * (k / 2);
                    lastDepth(w0 + at, w1 + at, w2 + at, w3 + at, x, xOffset + k, xStride, rows, out, strip * L);
                }
            } else {
                clear(out, rows, strip * L);
                f32(w0, w1, w2, w3, x, xOffset, xStride, w.cols(), rows, out, strip * L);
            }
        }
    }

    private static long strip(Matrix w, int firstPanel, int strip) {
        return w.panelAddress(firstPanel + strip / PARTS) + strip % PARTS * 4L * L;
    }

    private static void clear(float[] out, int rows, int o) {
        for (int r = 0; r < Loops.tileRows(rows); r++) {
            Arrays.fill(out, r * TILE + o, r * TILE + o + 4 * L, 0);
        }
    }

    private static void bf16(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int from,
            int stride,
            int pairs,
            int rows,
            float[] out,
            int o) {
        int r = 0;
        for (; r + 3 <= rows; r += 4) {
            int x0 = from + r * stride;
            // Three rows go as four: weights are what takes time, and the fourth result is not looked at.
            int x3 = r + 3 < rows ? x0 + 3 * stride : x0;
            Bf16Tiles.four(w0, w1, w2, w3, x, x0, x0 + stride, x0 + 2 * stride, x3, pairs, out, o + r * TILE, TILE);
        }
        if (r + 2 == rows) {
            int x0 = from + r * stride;
            Bf16Tiles.two(w0, w1, w2, w3, x, x0, x0 + stride, pairs, out, o + r * TILE, TILE);
        } else if (r + 1 == rows) {
            Bf16Tiles.one(w0, w1, w2, w3, x, from + r * stride, pairs, out, o + r * TILE);
        }
    }

    private static void f32(
            long w0,
            long w1,
            long w2,
            long w3,
            float[] x,
            int from,
            int stride,
            int depth,
            int rows,
            float[] out,
            int o) {
        int r = 0;
        for (; r + 3 <= rows; r += 4) {
            int x0 = from + r * stride;
            // Three rows go as four: weights are what takes time, and the fourth result is not looked at.
            int x3 = r + 3 < rows ? x0 + 3 * stride : x0;
            F32Tiles.four(w0, w1, w2, w3, x, x0, x0 + stride, x0 + 2 * stride, x3, depth, out, o + r * TILE, TILE);
        }
        if (r + 2 == rows) {
            int x0 = from + r * stride;
            F32Tiles.two(w0, w1, w2, w3, x, x0, x0 + stride, depth, out, o + r * TILE, TILE);
        } else if (r + 1 == rows) {
            F32Tiles.one(w0, w1, w2, w3, x, from + r * stride, depth, out, o + r * TILE);
        }
    }

    /// The last depth of an odd number of them: its partner in the word does not exist and must not be multiplied.
    private static void lastDepth(
            long w0, long w1, long w2, long w3, float[] x, int from, int stride, int rows, float[] out, int o) {
        for (int r = 0; r < rows; r++) {
            float value = x[from + r * stride];
            int row = o + r * TILE;
            even(words(w0)).fma(all(value), at(out, row)).intoArray(out, row);
            even(words(w1)).fma(all(value), at(out, row + L)).intoArray(out, row + L);
            even(words(w2)).fma(all(value), at(out, row + 2 * L)).intoArray(out, row + 2 * L);
            even(words(w3)).fma(all(value), at(out, row + 3 * L)).intoArray(out, row + 3 * L);
        }
    }

    @Override
    public float sumOfSquares(float[] x, int offset, int n, float[] partials) {
        return VectorElementwise.sumOfSquares(x, offset, n, partials);
    }

    @Override
    public void swiglu(float[] gate, int gateOffset, float[] up, int upOffset, int n) {
        VectorElementwise.swiglu(gate, gateOffset, up, upOffset, n);
    }

    @Override
    public float softmax(float[] scores, int offset, int n, float scale, float[] partials) {
        float max = VectorElementwise.scale(scores, offset, n, scale, partials);
        return VectorElementwise.exp(scores, offset, n, max, partials);
    }

    @Override
    public void decode(TileFormat format, long tile, int depth, int lanes, float[] out, int offset) {
        CacheTiles.decode(format, tile, format.groups(depth), lanes, out, offset);
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
        if (fresh) {
            for (int i = 0; i < queries; i++) {
                Arrays.fill(scores, sOffset + i * sStride, sOffset + i * sStride + 16, 0);
            }
        }
        for (int part = 0; part < 16; part += L) {
            int k = kOffset + part;
            int i = 0;
            for (; i + 4 <= queries; i += 4) {
                int s = sOffset + i * sStride + part;
                VectorAttention.scoreFour(q, qOffset + i * qStride, qStride, keys, k, depth, scores, s, sStride);
            }
            int done = depth & -4;
            for (int j = 0; j < queries; j++) {
                // All depths of the queries that are no four, the last depths of the others.
                int d = j < i ? done : 0;
                int s = sOffset + j * sStride + part;
                VectorAttention.scoreOne(q, qOffset + j * qStride + d, keys, k + 16 * d, depth - d, scores, s);
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
        for (int part = 0; part < 16; part += L) {
            for (int i = 0; i < queries; i++) {
                int s = sOffset + i * sStride + part;
                VectorAttention.fold(scales, scOffset + part, parts, pOffset + 16 * i + part, scores, s, fresh);
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
        int fours = tokens & -4;
        int wide = lanes / (4 * L) * 4 * L;
        for (int d = 0; d < wide; d += 4 * L) {
            VectorAttention.accumulateFour(p, pOffset, fours, values, vOffset + d, vStride, acc, aOffset + d);
        }
        for (int d = 0; d < lanes; d += L) {
            // All tokens of the lanes that are no four vectors, the last tokens of the others.
            int t = d < wide ? fours : 0;
            int v = vOffset + d + t * vStride;
            VectorAttention.accumulateOne(p, pOffset + t, tokens - t, values, v, vStride, acc, aOffset + d);
        }
    }

    @Override
    public void fixedScores(float[] parts, int high, int low, int scales, float unit, float[] scores, int sOffset) {
        for (int part = 0; part < 16; part += L) {
            VectorAttention.fixedScores(parts, high + part, low + part, scales + part, unit, scores, sOffset + part);
        }
    }

    @Override
    public void fixedSums(float[] parts, int high, int low, int lanes, float unit, float[] acc, int aOffset) {
        VectorAttention.fixedSums(parts, high, low, lanes, unit, acc, aOffset);
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
        VectorAttention.weigh(dots, dOffset, dStride, heads, n, weights, wOffset, out, oOffset);
    }

    @Override
    public void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        long bytes = shape.blockBytes();
        int lanes = shape.latentLanes();
        TokenTiles.copy(shape.latentFormat(), lanes, 0, pages, blockOffset, positions, first, count, to, bytes);
        long rope = shape.ropeOffset();
        lanes = shape.ropeLanes();
        TokenTiles.copy(shape.ropeFormat(), lanes, rope, pages, blockOffset, positions, first, count, to, bytes);
        TokenTiles.scales(shape, pages, blockOffset, positions, first, count, to);
    }
}

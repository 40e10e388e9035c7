package millrace.engine.kernel.cpu;

import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.TileFormat;

/// Loops whose attention is put together from smaller ones, by [BlockLoops] and [Int8Loops]: what those in Java are.
public interface TileLoops extends Loops {
    @Override
    default void scores(
            CacheShape shape,
            long[] pages,
            int first,
            int count,
            long blockOffset,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride,
            float[] scratch) {
        if (shape instanceof CacheShape.Grouped g && g.fixedPoint()) {
            int dim = g.headDim();
            long scales = g.keyScaleOffset();
            Int8Loops.scores(
                    this, dim, scales, pages, first, count, blockOffset, q, qOffset, queries, scores, sOffset, sStride,
                    scratch);
            return;
        }
        for (int p = 0; p < count; p++) {
            long block = pages[first + p] + blockOffset;
            BlockLoops.scores(this, shape, block, q, qOffset, queries, scores, sOffset + 16 * p, sStride, scratch);
        }
    }

    @Override
    default void scores(
            CacheShape.Keys shape,
            long[] pages,
            int first,
            int count,
            long blockOffset,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride,
            float[] scratch) {
        int dim = shape.dim();
        if (shape.fixedPoint()) {
            long scales = shape.scaleOffset();
            Int8Loops.scores(
                    this, dim, scales, pages, first, count, blockOffset, q, qOffset, queries, scores, sOffset, sStride,
                    scratch);
            return;
        }
        for (int p = 0; p < count; p++) {
            long block = pages[first + p] + blockOffset;
            int to = sOffset + 16 * p;
            BlockLoops.plain(this, shape.format(), block, q, qOffset, dim, queries, scores, to, sStride, scratch);
        }
    }

    @Override
    default void sums(
            CacheShape shape,
            long[] pages,
            int first,
            int count,
            int tokens,
            long blockOffset,
            float[] p,
            int pOffset,
            int pStride,
            int queries,
            float[] acc,
            int aOffset,
            float[] scratch) {
        for (int i = 0; i < count; i++) {
            long block = pages[first + i] + blockOffset;
            int n = i == count - 1 ? tokens : CacheShape.TOKENS;
            if (shape instanceof CacheShape.Grouped g && g.fixedPoint()) {
                Int8Loops.sums(this, g, block, n, p, pOffset + 16 * i, pStride, queries, acc, aOffset, scratch);
            } else {
                BlockLoops.sums(this, shape, block, n, p, pOffset + 16 * i, pStride, queries, acc, aOffset, scratch);
            }
        }
    }

    /// Decodes a tile into `out[(d · lanes) + lane]`; `depth` is rounded up to whole words, `lanes` is a multiple of 16.
    void decode(TileFormat format, long tile, int depth, int lanes, float[] out, int offset);

    /// `scores[sOffset + i · sStride + l] = Σ_d q[qOffset + i · qStride + d] · keys[kOffset + 16 d + l]`, as one chain over
    /// d, from 0 or from what stands there.
    void score(
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
            boolean fresh);

    /// `scores[sOffset + i · sStride + l] = fma(scales[scOffset + l], parts[pOffset + 16 i + l], …)`, from 0 or from what
    /// stands there, for 16 lanes l.
    void fold(
            float[] scales,
            int scOffset,
            float[] parts,
            int pOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride,
            boolean fresh);

    /// `scores[sOffset + l] = fma(256, parts[high + l], parts[low + l]) · unit · parts[scales + l]` for 16 lanes l.
    void fixedScores(float[] parts, int high, int low, int scales, float unit, float[] scores, int sOffset);

    /// `acc[aOffset + d] = fma(unit, fma(256, parts[high + d], parts[low + d]), acc[aOffset + d])`; `lanes` is a multiple
    /// of 16.
    void fixedSums(float[] parts, int high, int low, int lanes, float unit, float[] acc, int aOffset);

    /// `acc[aOffset + d] = fma(p[pOffset + t], values[vOffset + t · vStride + d], acc[aOffset + d])` for t ascending;
    /// `lanes` is a multiple of 16.
    void accumulate(
            float[] p,
            int pOffset,
            int tokens,
            float[] values,
            int vOffset,
            int vStride,
            int lanes,
            float[] acc,
            int aOffset);
}

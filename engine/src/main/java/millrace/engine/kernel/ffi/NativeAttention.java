package millrace.engine.kernel.ffi;

import java.util.Objects;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.TileFormat;

/// Loops over pages of the cache in C: codes are decoded in registers, or once for all queries, and multiplied at once.
final class NativeAttention {
    private final Segments segments;

    NativeAttention(Segments segments) {
        this.segments = segments;
    }

    void scores(
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
        check(pages, first, count, queries, sStride);
        checkScores(shape.keyDim(), count, q, qOffset, queries, scores, sOffset, sStride);
        Objects.checkFromIndexSize(0, shape.scratchFloats(), scratch.length);
        try {
            switch (shape) {
                case CacheShape.Grouped g when g.fixedPoint() ->
                    int8(
                            pages, first, count, blockOffset, g.headDim(), g.keyScaleOffset(), q, qOffset, queries, scores,
                            sOffset, sStride);
                case CacheShape.Grouped g ->
                    keys(
                            g.format(), pages, first, count, blockOffset, g.headDim(), g.scaleGroup(), g.keyScaleOffset(), q,
                            qOffset, queries, scores, sOffset, sStride);
                case CacheShape.Latent l ->
                    Symbols.SCORES_LATENT.invokeExact(
                            format(l.latentFormat()),
                            format(l.ropeFormat()),
                            PageAddresses.of(pages, first, count),
                            (long) count,
                            blockOffset,
                            (long) l.rank(),
                            (long) l.ropeDim(),
                            l.ropeOffset(),
                            l.scaleOffset(),
                            (long) l.scaleGroups(),
                            l.plain() ? 1L : 0L,
                            segments.of(q),
                            (long) qOffset,
                            (long) queries,
                            segments.of(scores),
                            (long) sOffset,
                            (long) sStride,
                            segments.of(scratch));
            }
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    void scores(
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
            int sStride) {
        int dim = shape.dim();
        check(pages, first, count, queries, sStride);
        checkScores(dim, count, q, qOffset, queries, scores, sOffset, sStride);
        try {
            if (shape.fixedPoint()) {
                long scales = shape.scaleOffset();
                int8(pages, first, count, blockOffset, dim, scales, q, qOffset, queries, scores, sOffset, sStride);
            } else {
                TileFormat f = shape.format();
                keys(f, pages, first, count, blockOffset, dim, dim, 0, q, qOffset, queries, scores, sOffset, sStride);
            }
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    /// Scores over INT8 keys, in integers.
    private void int8(
            long[] pages,
            int first,
            int count,
            long blockOffset,
            int dim,
            long scaleOffset,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride)
            throws Throwable {
        Symbols.SCORES_INT8.invokeExact(
                PageAddresses.of(pages, first, count),
                (long) count,
                blockOffset,
                (long) dim,
                scaleOffset,
                segments.of(q),
                (long) qOffset,
                (long) queries,
                segments.of(scores),
                (long) sOffset,
                (long) sStride);
    }

    /// Scores over keys in another format; without scales the offset does not matter.
    private void keys(
            TileFormat format,
            long[] pages,
            int first,
            int count,
            long blockOffset,
            int dim,
            int group,
            long scaleOffset,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride)
            throws Throwable {
        Symbols.SCORES_GROUPED.invokeExact(
                format(format),
                PageAddresses.of(pages, first, count),
                (long) count,
                blockOffset,
                (long) dim,
                (long) group,
                scaleOffset,
                segments.of(q),
                (long) qOffset,
                (long) queries,
                segments.of(scores),
                (long) sOffset,
                (long) sStride);
    }

    void sums(
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
        check(pages, first, count, queries, pStride);
        Objects.checkFromIndexSize(0, shape.scratchFloats(), scratch.length);
        Objects.checkIndex(tokens - 1, CacheShape.TOKENS);
        Objects.checkFromIndexSize(pOffset, Math.multiplyExact(queries - 1, pStride) + 16 * count, p.length);
        Objects.checkFromIndexSize(aOffset, queries * shape.valueLanes(), acc.length);
        try {
            switch (shape) {
                case CacheShape.Grouped g when g.fixedPoint() ->
                    Symbols.SUMS_INT8.invokeExact(
                            PageAddresses.of(pages, first, count),
                            (long) count,
                            (long) tokens,
                            blockOffset,
                            (long) g.valueLanes(),
                            g.valueOffset(),
                            g.valueScaleOffset(),
                            segments.of(p),
                            (long) pOffset,
                            (long) pStride,
                            (long) queries,
                            segments.of(acc),
                            (long) aOffset);
                case CacheShape.Grouped g ->
                    Symbols.SUMS_GROUPED.invokeExact(
                            format(g.valueFormat()),
                            PageAddresses.of(pages, first, count),
                            (long) count,
                            (long) tokens,
                            blockOffset,
                            (long) g.valueLanes(),
                            (long) g.scaleGroups(),
                            g.valueOffset(),
                            g.valueScaleOffset(),
                            segments.of(p),
                            (long) pOffset,
                            (long) pStride,
                            (long) queries,
                            segments.of(acc),
                            (long) aOffset);
                case CacheShape.Latent l ->
                    Symbols.SUMS_LATENT.invokeExact(
                            format(l.latentFormat()),
                            PageAddresses.of(pages, first, count),
                            (long) count,
                            (long) tokens,
                            blockOffset,
                            (long) l.rank(),
                            l.scaleOffset(),
                            (long) l.scaleGroups(),
                            l.plain() ? 1L : 0L,
                            segments.of(p),
                            (long) pOffset,
                            (long) pStride,
                            (long) queries,
                            segments.of(acc),
                            (long) aOffset);
            }
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        Objects.checkFromIndexSize(first, count, positions.length);
        try {
            Symbols.GATHER_LATENT.invokeExact(
                    format(shape.latentFormat()),
                    format(shape.ropeFormat()),
                    PageAddresses.of(pages, positions, first, count),
                    blockOffset,
                    (long) shape.latentLanes(),
                    (long) shape.ropeLanes(),
                    shape.ropeOffset(),
                    shape.scaleOffset(),
                    (long) shape.scaleGroups(),
                    shape.blockBytes(),
                    segments.of(positions),
                    (long) first,
                    (long) count,
                    to);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    private static void check(long[] pages, int first, int count, int queries, int stride) {
        Objects.checkFromIndexSize(first, count, pages.length);
        Objects.checkIndex(queries - 1, CacheShape.MOST_QUERIES);
        Objects.checkFromIndexSize(0, 16 * count, stride);
    }

    private static void checkScores(
            int dim, int count, float[] q, int qOffset, int queries, float[] scores, int sOffset, int sStride) {
        Objects.checkFromIndexSize(qOffset, queries * dim, q.length);
        Objects.checkFromIndexSize(sOffset, Math.multiplyExact(queries - 1, sStride) + 16 * count, scores.length);
    }

    /// As `attention.h` numbers them.
    private static long format(TileFormat format) {
        return switch (format) {
            case F32 -> 0;
            case BF16 -> 1;
            case INT8 -> 2;
            case INT4 -> 3;
            case INT4_PAIRS -> 4;
            case FP8 -> 5;
        };
    }
}

package millrace.engine.kernel.ffi;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.TileFormat;

/// Loops over pages of the cache in C: codes are decoded in registers, or once for all queries, and multiplied at once.
final class NativeAttention {
    private NativeAttention() {}

    static void scores(
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
                            MemorySegment.ofArray(pages),
                            (long) first,
                            (long) count,
                            blockOffset,
                            (long) l.rank(),
                            (long) l.ropeDim(),
                            l.ropeOffset(),
                            l.scaleOffset(),
                            (long) l.scaleGroups(),
                            l.plain() ? 1L : 0L,
                            MemorySegment.ofArray(q),
                            (long) qOffset,
                            (long) queries,
                            MemorySegment.ofArray(scores),
                            (long) sOffset,
                            (long) sStride,
                            MemorySegment.ofArray(scratch));
            }
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void scores(
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
    private static void int8(
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
                MemorySegment.ofArray(pages),
                (long) first,
                (long) count,
                blockOffset,
                (long) dim,
                scaleOffset,
                MemorySegment.ofArray(q),
                (long) qOffset,
                (long) queries,
                MemorySegment.ofArray(scores),
                (long) sOffset,
                (long) sStride);
    }

    /// Scores over keys in another format; without scales the offset does not matter.
    private static void keys(
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
                MemorySegment.ofArray(pages),
                (long) first,
                (long) count,
                blockOffset,
                (long) dim,
                (long) group,
                scaleOffset,
                MemorySegment.ofArray(q),
                (long) qOffset,
                (long) queries,
                MemorySegment.ofArray(scores),
                (long) sOffset,
                (long) sStride);
    }

    static void sums(
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
                            MemorySegment.ofArray(pages),
                            (long) first,
                            (long) count,
                            (long) tokens,
                            blockOffset,
                            (long) g.valueLanes(),
                            g.valueOffset(),
                            g.valueScaleOffset(),
                            MemorySegment.ofArray(p),
                            (long) pOffset,
                            (long) pStride,
                            (long) queries,
                            MemorySegment.ofArray(acc),
                            (long) aOffset);
                case CacheShape.Grouped g ->
                    Symbols.SUMS_GROUPED.invokeExact(
                            format(g.valueFormat()),
                            MemorySegment.ofArray(pages),
                            (long) first,
                            (long) count,
                            (long) tokens,
                            blockOffset,
                            (long) g.valueLanes(),
                            (long) g.scaleGroups(),
                            g.valueOffset(),
                            g.valueScaleOffset(),
                            MemorySegment.ofArray(p),
                            (long) pOffset,
                            (long) pStride,
                            (long) queries,
                            MemorySegment.ofArray(acc),
                            (long) aOffset);
                case CacheShape.Latent l ->
                    Symbols.SUMS_LATENT.invokeExact(
                            format(l.latentFormat()),
                            MemorySegment.ofArray(pages),
                            (long) first,
                            (long) count,
                            (long) tokens,
                            blockOffset,
                            (long) l.rank(),
                            l.scaleOffset(),
                            (long) l.scaleGroups(),
                            l.plain() ? 1L : 0L,
                            MemorySegment.ofArray(p),
                            (long) pOffset,
                            (long) pStride,
                            (long) queries,
                            MemorySegment.ofArray(acc),
                            (long) aOffset);
            }
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        Objects.checkFromIndexSize(first, count, positions.length);
        for (int i = first; i < first + count; i++) {
            Objects.checkIndex(positions[i], pages.length * CacheShape.TOKENS);
        }
        try {
            Symbols.GATHER_LATENT.invokeExact(
                    format(shape.latentFormat()),
                    format(shape.ropeFormat()),
                    MemorySegment.ofArray(pages),
                    blockOffset,
                    (long) shape.latentLanes(),
                    (long) shape.ropeLanes(),
                    shape.ropeOffset(),
                    shape.scaleOffset(),
                    (long) shape.scaleGroups(),
                    shape.blockBytes(),
                    MemorySegment.ofArray(positions),
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

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
        check(shape, pages, first, count, queries, sStride, scratch);
        Objects.checkFromIndexSize(qOffset, queries * shape.keyDim(), q.length);
        Objects.checkFromIndexSize(sOffset, Math.multiplyExact(queries - 1, sStride) + 16 * count, scores.length);
        try {
            switch (shape) {
                case CacheShape.Grouped g when g.fixedPoint() ->
                    Symbols.SCORES_INT8.invokeExact(
                            MemorySegment.ofArray(pages),
                            (long) first,
                            (long) count,
                            blockOffset,
                            (long) g.headDim(),
                            g.keyScaleOffset(),
                            MemorySegment.ofArray(q),
                            (long) qOffset,
                            (long) queries,
                            MemorySegment.ofArray(scores),
                            (long) sOffset,
                            (long) sStride);
                case CacheShape.Grouped g ->
                    Symbols.SCORES_GROUPED.invokeExact(
                            format(g.format()),
                            MemorySegment.ofArray(pages),
                            (long) first,
                            (long) count,
                            blockOffset,
                            (long) g.headDim(),
                            (long) g.scaleGroup(),
                            g.keyScaleOffset(),
                            MemorySegment.ofArray(q),
                            (long) qOffset,
                            (long) queries,
                            MemorySegment.ofArray(scores),
                            (long) sOffset,
                            (long) sStride);
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
        check(shape, pages, first, count, queries, pStride, scratch);
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

    private static void check(
            CacheShape shape, long[] pages, int first, int count, int queries, int stride, float[] scratch) {
        Objects.checkFromIndexSize(first, count, pages.length);
        Objects.checkIndex(queries - 1, CacheShape.MOST_QUERIES);
        Objects.checkFromIndexSize(0, 16 * count, stride);
        Objects.checkFromIndexSize(0, shape.scratchFloats(), scratch.length);
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

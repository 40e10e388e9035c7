package millrace.engine.kernel.cpu;

import static millrace.engine.kernel.CacheShape.MOST_QUERIES;
import static millrace.engine.kernel.CacheShape.TOKENS;

import java.util.Arrays;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.TileFormat;

/// Scores and sums over INT8 keys and values, put together from the loops over floats: see [FixedPoint] for why these give
/// the integers that the contract asks for. A block is decoded once for all queries.
final class Int8Loops {
    private Int8Loops() {}

    /// @param scaleOffset bytes from a block to the scales of its keys, which begin with it
    static void scores(
            TileLoops loops,
            int dim,
            long scaleOffset,
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
        int scales = TOKENS * TileFormat.INT8.groups(dim) * TileFormat.INT8.perWord();
        int units = scales + TOKENS;
        int parts = units + MOST_QUERIES;
        int lowParts = parts + TOKENS * queries;
        int high = lowParts + TOKENS * queries;
        int low = high + queries * dim;
        for (int i = 0; i < queries; i++) {
            scratch[units + i] =
                    FixedPoint.split(q, qOffset + i * dim, dim, scratch, high + i * dim, low + i * dim);
        }
        for (int p = 0; p < count; p++) {
            long block = pages[first + p] + blockOffset;
            loops.decode(TileFormat.INT8, block, dim, TOKENS, scratch, 0);
            BlockLoops.halves(block + scaleOffset, 1, scratch, scales);
            loops.score(scratch, high, dim, queries, scratch, 0, dim, scratch, parts, TOKENS, true);
            loops.score(scratch, low, dim, queries, scratch, 0, dim, scratch, lowParts, TOKENS, true);
            for (int i = 0; i < queries; i++) {
                int part = TOKENS * i;
                int to = sOffset + i * sStride + TOKENS * p;
                loops.fixedScores(scratch, parts + part, lowParts + part, scales, scratch[units + i], scores, to);
            }
        }
    }

    static void sums(
            TileLoops loops,
            CacheShape.Grouped shape,
            long block,
            int tokens,
            float[] p,
            int pOffset,
            int pStride,
            int queries,
            float[] acc,
            int aOffset,
            float[] scratch) {
        int lanes = shape.valueLanes();
        int scales = TOKENS * lanes;
        int weights = scales + TOKENS;
        int high = weights + TOKENS;
        int low = high + TOKENS;
        int parts = low + TOKENS;
        int lowParts = parts + lanes;
        loops.decode(shape.valueFormat(), block + shape.valueOffset(), TOKENS, lanes, scratch, 0);
        BlockLoops.halves(block + shape.valueScaleOffset(), 1, scratch, scales);
        for (int i = 0; i < queries; i++) {
            for (int t = 0; t < tokens; t++) {
                scratch[weights + t] = p[pOffset + i * pStride + t] * scratch[scales + t];
            }
            float unit = FixedPoint.split(scratch, weights, tokens, scratch, high, low);
            Arrays.fill(scratch, parts, parts + 2 * lanes, 0);
            loops.accumulate(scratch, high, tokens, scratch, 0, lanes, lanes, scratch, parts);
            loops.accumulate(scratch, low, tokens, scratch, 0, lanes, lanes, scratch, lowParts);
            loops.fixedSums(scratch, parts, lowParts, lanes, unit, acc, aOffset + i * lanes);
        }
    }
}

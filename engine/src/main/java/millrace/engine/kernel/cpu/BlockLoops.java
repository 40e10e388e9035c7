package millrace.engine.kernel.cpu;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;

/// Scores and sums over one block of the cache, put together from the smaller loops: codes are decoded once for all
/// queries, and their scales applied to what comes out. [Int8Loops] has grouped INT8.
///
/// In `scratch` stand the decoded codes, then the block's scales `[group][16]`, then `[query][16]` partial scores or
/// scaled weights.
final class BlockLoops {
    private static final int TOKENS = CacheShape.TOKENS;

    private BlockLoops() {}

    static void scores(
            TileLoops loops,
            CacheShape shape,
            long block,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int s,
            int stride,
            float[] scratch) {
        int dim = shape.keyDim();
        switch (shape) {
            case CacheShape.Grouped g -> {
                if (!g.format().scaled()) {
                    plain(loops, g.format(), block, q, qOffset, dim, queries, scores, s, stride, scratch);
                    return;
                }
                int scales = TOKENS * g.format().groups(dim) * g.format().perWord();
                loops.decode(g.format(), block, dim, TOKENS, scratch, 0);
                halves(block + g.keyScaleOffset(), g.scaleGroups(), scratch, scales);
                groups(loops, q, qOffset, dim, queries, dim, g.scaleGroup(), scratch, scales, scores, s, stride);
            }
            case CacheShape.Latent l -> {
                int latents = TOKENS * dim;
                int ropes = decodeLatents(loops, l, block, scratch, latents);
                int scales = ropes + TOKENS * l.ropeLanes();
                loops.decode(l.ropeFormat(), block + l.ropeOffset(), TOKENS, l.ropeLanes(), scratch, ropes);
                transpose(scratch, latents, l.latentLanes(), l.rank(), 0);
                transpose(scratch, ropes, l.ropeLanes(), l.ropeDim(), TOKENS * l.rank());
                floats(block + l.scaleOffset(), l.scaleGroups(), scratch, scales);
                if (l.plain()) {
                    groups(loops, q, qOffset, dim, queries, dim, dim, scratch, scales, scores, s, stride);
                    return;
                }
                int scaled = l.latentFormat().scaled() ? l.rank() : 0;
                int group = CacheShape.Latent.GROUP;
                groups(loops, q, qOffset, dim, queries, scaled, group, scratch, scales, scores, s, stride);
                loops.score(
                        q,
                        qOffset + scaled,
                        dim,
                        queries,
                        scratch,
                        TOKENS * scaled,
                        dim - scaled,
                        scores,
                        s,
                        stride,
                        scaled == 0);
            }
        }
    }

    /// Keys without scales, with which a block begins.
    static void plain(
            TileLoops loops,
            TileFormat format,
            long keys,
            float[] q,
            int qOffset,
            int dim,
            int queries,
            float[] scores,
            int s,
            int stride,
            float[] scratch) {
        loops.decode(format, keys, dim, TOKENS, scratch, 0);
        loops.score(q, qOffset, dim, queries, scratch, 0, dim, scores, s, stride, true);
    }

    /// The chain over the groups of the first `scaled` dimensions.
    private static void groups(
            TileLoops loops,
            float[] q,
            int qOffset,
            int qStride,
            int queries,
            int scaled,
            int group,
            float[] scratch,
            int scales,
            float[] scores,
            int s,
            int stride) {
        int parts = scales + (scaled + group - 1) / group * TOKENS;
        for (int d = 0; d < scaled; d += group) {
            int depth = Math.min(group, scaled - d);
            loops.score(q, qOffset + d, qStride, queries, scratch, TOKENS * d, depth, scratch, parts, TOKENS, true);
            loops.fold(scratch, scales + d / group * TOKENS, scratch, parts, queries, scores, s, stride, d == 0);
        }
    }

    static void sums(
            TileLoops loops,
            CacheShape shape,
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
        int group;
        int groups;
        switch (shape) {
            case CacheShape.Grouped g -> {
                loops.decode(g.valueFormat(), block + g.valueOffset(), TOKENS, lanes, scratch, 0);
                halves(block + g.valueScaleOffset(), g.scaleGroups(), scratch, scales);
                group = g.format() == TileFormat.INT4 ? g.scaleGroup() : lanes;
                groups = g.scaleGroups();
            }
            case CacheShape.Latent l -> {
                decodeLatents(loops, l, block, scratch, 0);
                floats(block + l.scaleOffset(), l.scaleGroups(), scratch, scales);
                group = l.plain() ? lanes : CacheShape.Latent.GROUP;
                groups = l.scaleGroups();
            }
        }
        if (groups == 0) {
            for (int i = 0; i < queries; i++) {
                loops.accumulate(p, pOffset + i * pStride, tokens, scratch, 0, lanes, lanes, acc, aOffset + i * lanes);
            }
            return;
        }
        int weights = scales + groups * TOKENS;
        for (int i = 0; i < queries; i++) {
            for (int d = 0; d < lanes; d += group) {
                int n = Math.min(group, lanes - d);
                products(p, pOffset + i * pStride, scratch, scales + d / group * TOKENS, tokens, weights);
                loops.accumulate(scratch, weights, tokens, scratch, d, lanes, n, acc, aOffset + i * lanes + d);
            }
        }
    }

    private static void products(float[] p, int from, float[] scratch, int scales, int tokens, int to) {
        for (int t = 0; t < tokens; t++) {
            scratch[to + t] = p[from + t] * scratch[scales + t];
        }
    }

    /// Returns where the decoded latents end.
    private static int decodeLatents(TileLoops loops, CacheShape.Latent l, long block, float[] scratch, int at) {
        loops.decode(l.latentFormat(), block, TOKENS, l.latentLanes(), scratch, at);
        return at + TOKENS * l.latentLanes();
    }

    static void halves(long address, int groups, float[] out, int at) {
        for (int i = 0; i < groups * TOKENS; i++) {
            out[at + i] = Float.float16ToFloat(Memory.ALL.get(JAVA_SHORT, address + 2L * i));
        }
    }

    private static void floats(long address, int groups, float[] out, int at) {
        for (int i = 0; i < groups * TOKENS; i++) {
            out[at + i] = Memory.ALL.get(JAVA_FLOAT, address + 4L * i);
        }
    }

    /// Token-major rows to `[dimension][16 tokens]`.
    private static void transpose(float[] x, int from, int lanes, int n, int to) {
        for (int t = 0; t < TOKENS; t++) {
            int row = from + t * lanes;
            for (int d = 0; d < n; d++) {
                x[to + d * TOKENS + t] = x[row + d];
            }
        }
    }
}

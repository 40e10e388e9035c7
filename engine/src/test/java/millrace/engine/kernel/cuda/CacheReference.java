package millrace.engine.kernel.cuda;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.util.Arrays;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Hadamard;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.scalar.ScalarLoops;

/// Attention of one query in F64 over what the pages hold, and how far the device may be from it: the bounds of
/// docs/numerics.md, where they are derived.
final class CacheReference {
    private static final double U = 0x1p-24;

    private static final int TOKENS = CacheShape.TOKENS;

    private final CacheShape shape;
    private final double[][] keys;
    private final double[][] values;

    /// Reads the pages of a sequence.
    ///
    /// @param blocks absolute addresses of its blocks
    CacheReference(CacheShape shape, long[] blocks, int positions) {
        this.shape = shape;
        keys = new double[positions][];
        values = new double[positions][];
        for (int p = 0; p * TOKENS < positions; p++) {
            int tokens = Math.min(TOKENS, positions - p * TOKENS);
            switch (shape) {
                case CacheShape.Grouped g -> read(g, blocks[p], p * TOKENS, tokens);
                case CacheShape.Latent l -> read(l, blocks[p], p * TOKENS, tokens);
            }
        }
    }

    private void read(CacheShape.Grouped g, long block, int first, int tokens) {
        int dim = g.headDim();
        int lanes = g.valueLanes();
        var loops = new ScalarLoops();
        float[] k = new float[TOKENS * (dim + 8)];
        float[] v = new float[TOKENS * lanes];
        loops.decode(g.format(), block, dim, TOKENS, k, 0);
        loops.decode(g.valueFormat(), block + g.valueOffset(), TOKENS, lanes, v, 0);
        for (int t = 0; t < tokens; t++) {
            keys[first + t] = new double[dim];
            values[first + t] = new double[dim];
            for (int d = 0; d < dim; d++) {
                long scale = g.format().scaled() ? 2L * (d / g.scaleGroup() * TOKENS + t) : -1;
                keys[first + t][d] = k[d * TOKENS + t] * half(block + g.keyScaleOffset(), scale);
                values[first + t][d] = v[t * lanes + d] * half(block + g.valueScaleOffset(), scale);
            }
        }
    }

    private static double half(long scales, long at) {
        return at < 0 ? 1 : Float.float16ToFloat(Memory.ALL.get(JAVA_SHORT, scales + at));
    }

    private void read(CacheShape.Latent l, long block, int first, int tokens) {
        int rank = l.rank();
        int ropeDim = l.ropeDim();
        var loops = new ScalarLoops();
        float[] c = new float[TOKENS * l.latentLanes()];
        float[] r = new float[TOKENS * l.ropeLanes()];
        loops.decode(l.latentFormat(), block, TOKENS, l.latentLanes(), c, 0);
        loops.decode(l.ropeFormat(), block + l.ropeOffset(), TOKENS, l.ropeLanes(), r, 0);
        for (int t = 0; t < tokens; t++) {
            double[] key = new double[rank + ropeDim];
            for (int d = 0; d < rank; d++) {
                int group = l.plain() ? 0 : d / CacheShape.Latent.GROUP;
                key[d] = c[t * l.latentLanes() + d] * (l.scaleGroups() == 0 ? 1 : scale(l, block, group, t));
            }
            for (int d = 0; d < ropeDim; d++) {
                key[rank + d] = r[t * l.ropeLanes() + d] * (l.plain() ? scale(l, block, 0, t) : 1);
            }
            keys[first + t] = key;
            values[first + t] = Arrays.copyOf(key, rank);
        }
    }

    private static double scale(CacheShape.Latent l, long block, int group, int t) {
        return Memory.ALL.get(JAVA_FLOAT, block + l.scaleOffset() + 4L * (group * TOKENS + t));
    }

    /// @param q a query as the model gives it
    /// @param visible positions that it sees
    /// @return the result, then the bound of each of its numbers
    double[][] attend(float[] q, int visible, double factor) {
        boolean rotated = shape instanceof CacheShape.Grouped g && g.rotated();
        float[] query = q.clone();
        if (rotated) {
            Hadamard.rotate(query, 0, query.length);
        }
        double[] scores = new double[visible];
        double error = 0;
        for (int t = 0; t < visible; t++) {
            double magnitude = 0;
            for (int d = 0; d < query.length; d++) {
                scores[t] += query[d] * keys[t][d];
                magnitude += Math.abs(query[d] * keys[t][d]);
            }
            scores[t] *= factor;
            error = Math.max(error, (35 * parts() * Math.ceil(query.length / 16.0) + 8) * U * factor * magnitude);
        }
        double max = Arrays.stream(scores).max().orElseThrow();
        double sum = 0;
        int width = values[0].length;
        double[] out = new double[width];
        double[] bound = new double[width];
        for (int t = 0; t < visible; t++) {
            double p = Math.exp(scores[t] - max);
            sum += p;
            for (int d = 0; d < width; d++) {
                out[d] += p * values[t][d];
                bound[d] += p * Math.abs(values[t][d]);
            }
        }
        double splits = Math.ceil(visible / 256.0);
        double relative = 2 * error + (560 * parts() + 14 * splits + 30) * U;
        for (int d = 0; d < width; d++) {
            out[d] /= sum;
            bound[d] = bound[d] / sum * relative;
        }
        return rotated ? new double[][] {back(out), spread(bound)} : new double[][] {out, bound};
    }

    /// BF16 that a key and a value are the sum of.
    private int parts() {
        return switch (shape) {
            case CacheShape.Grouped g -> g.format() == TileFormat.F32 ? 3 : 1;
            case CacheShape.Latent l -> l.latentFormat() == TileFormat.F32 ? 3 : 1;
        };
    }

    private static double[] back(double[] x) {
        double[] y = new double[x.length];
        for (int i = 0; i < x.length; i++) {
            for (int j = 0; j < x.length; j++) {
                y[i] += (Integer.bitCount(i & j) % 2 == 0 ? x[j] : -x[j]) / Math.sqrt(x.length);
            }
        }
        return y;
    }

    /// Every number takes a share of every error, and log n additions of its own.
    private static double[] spread(double[] bound) {
        double[] y = new double[bound.length];
        Arrays.fill(y, 1.1 * Arrays.stream(bound).sum() / Math.sqrt(bound.length));
        return y;
    }
}

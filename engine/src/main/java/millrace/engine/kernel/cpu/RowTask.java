package millrace.engine.kernel.cpu;

import java.util.Arrays;
import java.util.Objects;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// The operations whose rows do not meet: a unit is one row. The operands of the current one stand in fields, so that
/// a step allocates nothing.
final class RowTask implements ThreadTeam.Task {
    enum Operation {
        EMBED,
        NORM,
        LAYER_NORM,
        ROTATE,
        SWIGLU,
        ADD,
        STORE_GROUPED,
        STORE_LATENT,
        STORE_KEYS,
        COMBINE
    }

    private final Loops loops;
    private final float[][] partials;
    private float[][] rotations;
    Operation operation = Operation.ADD;
    @Nullable Rows y;
    @Nullable Rows x;
    @Nullable Rows other;
    @Nullable Matrix table;
    int @Nullable [] indices;
    float @Nullable [] weight;
    float @Nullable [] bias;
    float eps;
    int heads;
    int headDim;
    int from;
    boolean interleaved;
    @Nullable CacheShape shape;
    CacheShape.@Nullable Keys indexShape;
    @Nullable CacheBatch batch;
    long layerOffset;

    RowTask(Loops loops, int threads) {
        this.loops = loops;
        partials = new float[threads][16];
        rotations = new float[threads][0];
    }

    /// Makes room for heads that are rotated before they are stored.
    void reserveRotations(int headDim) {
        if (rotations[0].length < headDim) {
            rotations = new float[rotations.length][headDim];
        }
    }

    @Override
    public void run(int row, int thread) {
        switch (operation) {
            case EMBED -> embed(row);
            case NORM -> norm(row, partials[thread]);
            case LAYER_NORM -> layerNorm(row, partials[thread]);
            case ROTATE -> rotate(row);
            case SWIGLU -> swiglu(row);
            case ADD -> add(row);
            case STORE_GROUPED -> storeGrouped(row, rotations[thread]);
            case STORE_LATENT -> storeLatent(row);
            case STORE_KEYS -> storeKeys(row);
            case COMBINE -> combine(row);
        }
    }

    private Rows y() {
        return Objects.requireNonNull(y);
    }

    private Rows x() {
        return Objects.requireNonNull(x);
    }

    private void embed(int row) {
        Objects.requireNonNull(table).row(Objects.requireNonNull(indices)[row], y().values(), y().at(row));
    }

    private void norm(int row, float[] sums) {
        float[] w = Objects.requireNonNull(weight);
        for (int h = 0; h < heads; h++) {
            int i = x().at(row) + h * w.length;
            float sum = loops.sumOfSquares(x().values(), i, w.length, sums);
            float scale = (float) (1 / Math.sqrt((double) sum / w.length + eps));
            scaled(y().values(), y().at(row) + h * w.length, x().values(), i, w, scale);
        }
    }

    private static void scaled(float[] y, int o, float[] x, int i, float[] w, float scale) {
        for (int d = 0; d < w.length; d++) {
            y[o + d] = x[i + d] * scale * w[d];
        }
    }

    private void layerNorm(int row, float[] sums) {
        float[] w = Objects.requireNonNull(weight);
        float[] b = Objects.requireNonNull(bias);
        float[] out = y().values();
        int o = y().at(row);
        float mean = sum(x().values(), x().at(row), w.length, sums) / w.length;
        less(out, o, x().values(), x().at(row), w.length, mean);
        float squares = loops.sumOfSquares(out, o, w.length, sums);
        float scale = (float) (1 / Math.sqrt((double) squares / w.length + eps));
        scaled(out, o, out, o, w, scale);
        add(out, o, b, 0, w.length);
    }

    private static float sum(float[] x, int from, int n, float[] sums) {
        Arrays.fill(sums, 0, 16, 0);
        for (int i = 0; i < n; i++) {
            sums[i % 16] += x[from + i];
        }
        return Loops.tree(sums);
    }

    private static void less(float[] y, int o, float[] x, int i, int n, float mean) {
        for (int d = 0; d < n; d++) {
            y[o + d] = x[i + d] - mean;
        }
    }

    private void rotate(int row) {
        Rows angles = Objects.requireNonNull(other);
        int half = angles.width() / 2;
        for (int h = 0; h < heads; h++) {
            int at = x().at(row) + h * headDim + from;
            if (interleaved) {
                rotateInterleaved(x().values(), at, angles.values(), angles.at(row), half);
            } else {
                rotateHalves(x().values(), at, angles.values(), angles.at(row), half);
            }
        }
    }

    private static void rotateHalves(float[] x, int at, float[] angles, int a, int half) {
        for (int i = 0; i < half; i++) {
            float x0 = x[at + i];
            float x1 = x[at + half + i];
            float cos = angles[a + i];
            float sin = angles[a + half + i];
            x[at + i] = Math.fma(x0, cos, -(x1 * sin));
            x[at + half + i] = Math.fma(x1, cos, x0 * sin);
        }
    }

    private static void rotateInterleaved(float[] x, int at, float[] angles, int a, int half) {
        for (int i = 0; i < half; i++) {
            float x0 = x[at + 2 * i];
            float x1 = x[at + 2 * i + 1];
            float cos = angles[a + i];
            float sin = angles[a + half + i];
            x[at + 2 * i] = Math.fma(x0, cos, -(x1 * sin));
            x[at + 2 * i + 1] = Math.fma(x1, cos, x0 * sin);
        }
    }

    private void swiglu(int row) {
        Rows up = Objects.requireNonNull(other);
        loops.swiglu(x().values(), x().at(row), up.values(), up.at(row), x().width());
    }

    private void add(int row) {
        add(x().values(), x().at(row), y().values(), y().at(row), x().width());
    }

    private static void add(float[] x, int i, float[] y, int o, int n) {
        for (int d = 0; d < n; d++) {
            x[i + d] += y[o + d];
        }
    }

    private void storeGrouped(int row, float[] rotation) {
        CacheShape.Grouped grouped = (CacheShape.Grouped) Objects.requireNonNull(shape);
        Rows values = Objects.requireNonNull(other);
        CacheBatch b = Objects.requireNonNull(batch);
        int segment = b.segmentOf(row);
        int position = b.startPosition(segment) + row - b.firstRow(segment);
        long block = b.page(segment, position) + layerOffset;
        int dim = grouped.headDim();
        for (int h = 0; h < heads; h++) {
            CacheWriter.write(
                    grouped,
                    block + h * grouped.blockBytes(),
                    position % CacheShape.TOKENS,
                    x().values(),
                    x().at(row) + h * dim,
                    values.values(),
                    values.at(row) + h * dim,
                    rotation);
        }
    }

    private void storeLatent(int row) {
        CacheShape.Latent latent = (CacheShape.Latent) Objects.requireNonNull(shape);
        Rows ropeKeys = Objects.requireNonNull(other);
        CacheBatch b = Objects.requireNonNull(batch);
        int segment = b.segmentOf(row);
        int position = b.startPosition(segment) + row - b.firstRow(segment);
        CacheWriter.write(
                latent,
                b.page(segment, position) + layerOffset,
                position % CacheShape.TOKENS,
                x().values(),
                x().at(row),
                ropeKeys.values(),
                ropeKeys.at(row));
    }

    private void storeKeys(int row) {
        CacheShape.Keys keys = Objects.requireNonNull(indexShape);
        CacheBatch b = Objects.requireNonNull(batch);
        int segment = b.segmentOf(row);
        int position = b.startPosition(segment) + row - b.firstRow(segment);
        long block = b.page(segment, position) + layerOffset;
        CacheWriter.write(keys, block, position % CacheShape.TOKENS, x().values(), x().at(row));
    }

    private void combine(int row) {
        int[] slots = Objects.requireNonNull(indices);
        float[] weights = Objects.requireNonNull(weight);
        float[] out = y().values();
        int o = y().at(row);
        int n = y().width();
        Arrays.fill(out, o, o + n, 0);
        for (int j = 0; j < heads; j++) {
            int slot = row * heads + j;
            accumulate(out, o, x().values(), x().at(slots[slot]), weights[slot], n);
        }
        if (other != null) {
            add(out, o, other.values(), other.at(row), n);
        }
    }

    private static void accumulate(float[] y, int o, float[] x, int i, float weight, int n) {
        for (int d = 0; d < n; d++) {
            y[o + d] = Math.fma(weight, x[i + d], y[o + d]);
        }
    }
}

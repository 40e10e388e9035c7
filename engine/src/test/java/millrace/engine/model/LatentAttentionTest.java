package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Objects;
import java.util.SplittableRandom;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.Rows;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// The absorbed form against the expanded one, which makes keys and values of every head out of the latents, in F64; where an
/// indexer chooses, over the positions that the same makes of its definition.
final class LatentAttentionTest {
    private static final int ROWS = 21;
    private static final long SEED = 17;

    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(strings = {"kimi_k2", "glm4_moe_lite", "kimi_k2 in its real dimensions", "glm_moe_dsa", "deepseek_v32"})
    void absorbedFormShouldAgreeWithTheExpandedOne(String name) throws IOException {
        TinyModel model = TinyModel.of(name.split(" ")[0]).withoutMtp();
        if (name.contains("real")) {
            model.with("kv_lora_rank", 512).with("qk_nope_head_dim", 128).with("qk_rope_head_dim", 64);
            model.with("v_head_dim", 128);
        }
        model.write(dir);
        try (Backend backend = Backend.open("auto", 2);
                ModelFiles files = ModelFiles.open(dir)) {
            ModelConfig config = ModelConfig.read(files);
            float[] x = new float[ROWS * config.hiddenSize()];
            var random = new SplittableRandom(SEED);
            for (int i = 0; i < x.length; i++) {
                x[i] = (float) random.nextDouble(-2, 2);
            }
            float[] actual = absorbed(config, files, backend, x);
            double[][] expected = expanded(config, x);
            for (int row = 0; row < ROWS; row++) {
                for (int i = 0; i < config.hiddenSize(); i++) {
                    assertThat((double) actual[row * config.hiddenSize() + i])
                            .as("row %d, dimension %d, seed %d", row, i, SEED)
                            .isCloseTo(expected[row][i], within(1e-4));
                }
            }
        }
    }

    private static float[] absorbed(ModelConfig config, ModelFiles files, Backend backend, float[] x) {
        int hidden = config.hiddenSize();
        try (ModelWeights weights = ModelWeights.load(config, files, backend.kernels());
                PagePool pool = new PagePool(Transformer.kvLayout(config, KvFormat.F32), 1 << 22)) {
            PageTable table = new PageTable(pool);
            assertThat(table.ensure(ROWS)).isTrue();
            CacheBatch batch = new CacheBatch(1);
            batch.add(table.addresses(), table.pageCount(), 0, ROWS, 0);
            Rows angles = Rows.allocate(ROWS, config.rope().rotaryDim());
            RotaryEmbedding rotary = new RotaryEmbedding(config.rope());
            for (int row = 0; row < ROWS; row++) {
                rotary.angles(row, angles.values(), angles.at(row));
            }
            Attention attention = Attention.of(config, pool.layout(), backend.kernels(), ROWS);
            attention.begin(ROWS - 1);
            Rows out = Rows.allocate(ROWS, hidden);
            attention.write(weights.layer(1), 1, new Rows(x, 0, hidden, hidden), ROWS, angles, batch);
            attention.read(weights.layer(1), 1, ROWS, batch, out);
            return out.values();
        }
    }

    private static double[][] expanded(ModelConfig config, float[] x) {
        MlaConfig mla = Objects.requireNonNull(config.mla());
        int heads = config.numAttentionHeads();
        int nope = mla.qkNopeHeadDim();
        int rope = mla.qkRopeHeadDim();
        int rank = mla.kvLoraRank();
        int v = mla.vHeadDim();
        double scale = RotaryEmbedding.softmaxFactor(config.rope().scaling()) / Math.sqrt(nope + rope);
        double[][] q = new double[ROWS][];
        double[][] latent = new double[ROWS][];
        double[][] keyRope = new double[ROWS][];
        double[][] up = new double[ROWS][];
        double[][] result = new double[ROWS][];
        double[][] indexKeys = new double[ROWS][];
        for (int t = 0; t < ROWS; t++) {
            double[] row = new double[config.hiddenSize()];
            for (int i = 0; i < row.length; i++) {
                row[i] = x[t * row.length + i];
            }
            double[] queryLatent = norm(times("q_a_proj", mla.qLoraRank(), row), "q_a_layernorm");
            q[t] = times("q_b_proj", heads * (nope + rope), queryLatent);
            double[] down = times("kv_a_proj_with_mqa", rank + rope, row);
            latent[t] = norm(Arrays.copyOf(down, rank), "kv_a_layernorm");
            keyRope[t] = Arrays.copyOfRange(down, rank, rank + rope);
            rotate(config, keyRope[t], 0, t);
            for (int h = 0; h < heads; h++) {
                rotate(config, q[t], h * (nope + rope) + nope, t);
            }
            up[t] = times("kv_b_proj", heads * (nope + v), latent[t]);
            indexKeys[t] = config.indexer() == null ? new double[0] : indexKey(config, row, t);
            boolean[] chosen = chosen(config, queryLatent, row, t, indexKeys);
            double[] mixed = new double[heads * v];
            for (int h = 0; h < heads; h++) {
                double[] p = new double[t + 1];
                double sum = 0;
                for (int s = 0; s <= t; s++) {
                    double dot = 0;
                    for (int i = 0; i < nope; i++) {
                        dot += q[t][h * (nope + rope) + i] * up[s][h * (nope + v) + i];
                    }
                    for (int i = 0; i < rope; i++) {
                        dot += q[t][h * (nope + rope) + nope + i] * keyRope[s][i];
                    }
                    p[s] = chosen[s] ? Math.exp(dot * scale) : 0;
                    sum += p[s];
                }
                for (int s = 0; s <= t; s++) {
                    for (int i = 0; i < v; i++) {
                        mixed[h * v + i] += p[s] / sum * up[s][h * (nope + v) + nope + i];
                    }
                }
            }
            result[t] = times("o_proj", config.hiddenSize(), mixed);
        }
        return result;
    }

    /// Layer norm about the mean, then the first dimensions rotated.
    private static double[] indexKey(ModelConfig config, double[] row, int position) {
        IndexerConfig indexer = Objects.requireNonNull(config.indexer());
        int n = indexer.headDim();
        double[] key = times("indexer.wk", n, row);
        double mean = Arrays.stream(key).average().orElseThrow();
        double variance = Arrays.stream(key).map(x -> (x - mean) * (x - mean)).average().orElseThrow();
        float[] weight = weights("indexer.k_norm", n);
        float[] bias = TinyModel.values("model.layers.1.self_attn.indexer.k_norm.bias", new long[] {n});
        for (int i = 0; i < n; i++) {
            key[i] = (key[i] - mean) / Math.sqrt(variance + 1e-6) * weight[i] + bias[i];
        }
        rotate(config, key, 0, position, indexer.interleaved());
        return key;
    }

    /// The positions of the largest scores.
    private static boolean[] chosen(ModelConfig config, double[] queryLatent, double[] row, int t, double[][] keys) {
        boolean[] chosen = new boolean[t + 1];
        IndexerConfig indexer = config.indexer();
        if (indexer == null || t < indexer.topK()) {
            Arrays.fill(chosen, true);
            return chosen;
        }
        int n = indexer.headDim();
        double[] q = times("indexer.wq_b", indexer.heads() * n, queryLatent);
        double[] w = times("indexer.weights_proj", indexer.heads(), row);
        double[] scores = new double[t + 1];
        for (int h = 0; h < indexer.heads(); h++) {
            rotate(config, q, h * n, t, indexer.interleaved());
            for (int s = 0; s <= t; s++) {
                double dot = 0;
                for (int i = 0; i < n; i++) {
                    dot += q[h * n + i] * keys[s][i];
                }
                scores[s] += w[h] * Math.max(0, dot) / Math.sqrt((double) n * indexer.heads());
            }
        }
        double[] ascending = scores.clone();
        Arrays.sort(ascending);
        double least = ascending[t + 1 - indexer.topK()];
        assertThat(least - ascending[t - indexer.topK()]).as("gap at position %d, which F32 must not close", t)
                .isGreaterThan(1e-6);
        for (int s = 0; s <= t; s++) {
            chosen[s] = scores[s] >= least;
        }
        return chosen;
    }

    private static double[] times(String name, int rows, double[] x) {
        float[] w = weights(name, rows, x.length);
        double[] y = new double[rows];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < x.length; c++) {
                y[r] += w[r * x.length + c] * x[c];
            }
        }
        return y;
    }

    private static double[] norm(double[] x, String name) {
        double squares = 0;
        for (double value : x) {
            squares += value * value;
        }
        float[] w = weights(name, x.length);
        double scale = 1 / Math.sqrt(squares / x.length + 1e-6);
        for (int i = 0; i < x.length; i++) {
            x[i] *= scale * w[i];
        }
        return x;
    }

    private static float[] weights(String name, long... shape) {
        return TinyModel.values("model.layers.1.self_attn." + name + ".weight", shape);
    }

    private static void rotate(ModelConfig config, double[] x, int at, int position) {
        rotate(config, x, at, position, true);
    }

    private static void rotate(ModelConfig config, double[] x, int at, int position, boolean interleaved) {
        var rotary = new RotaryEmbedding(config.rope());
        int half = rotary.rotaryDim() / 2;
        for (int i = 0; i < half; i++) {
            int first = at + (interleaved ? 2 * i : i);
            int second = interleaved ? first + 1 : first + half;
            double cos = Math.cos(position * rotary.frequency(i)) * rotary.attentionFactor();
            double sin = Math.sin(position * rotary.frequency(i)) * rotary.attentionFactor();
            double a = x[first];
            double b = x[second];
            x[first] = a * cos - b * sin;
            x[second] = b * cos + a * sin;
        }
    }
}

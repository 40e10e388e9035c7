package millrace.engine.model;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.StoredTensor;
import org.jspecify.annotations.Nullable;

/// All weights of a model, repacked for the kernels, in memory outside the heap.
///
/// Matrices keep the numbers of the file, unless a conversion is asked for, see [WeightTargets]. The files may be
/// closed afterwards.
public final class ModelWeights implements AutoCloseable {
    private final Arena arena;
    private final Matrix embedding;
    private final Matrix lmHead;
    private final float[] finalNorm;
    private final List<LayerWeights> layers;
    private final Map<String, Long> bytesByFormat;

    private ModelWeights(
            Arena arena,
            Matrix embedding,
            Matrix lmHead,
            float[] finalNorm,
            List<LayerWeights> layers,
            Map<String, Long> bytesByFormat) {
        this.arena = arena;
        this.embedding = embedding;
        this.lmHead = lmHead;
        this.finalNorm = finalNorm;
        this.layers = List.copyOf(layers);
        this.bytesByFormat = Map.copyOf(bytesByFormat);
    }

    /// Repacks every tensor that the config asks for; [TensorExpectation#check] must have passed.
    ///
    /// @throws millrace.engine.BackendException `MEMORY_EXHAUSTED`
    public static ModelWeights load(ModelConfig config, ModelFiles files, Kernels kernels) {
        return load(config, files, kernels, WeightTargets.STORED);
    }

    /// The same, converting what the targets say.
    public static ModelWeights load(ModelConfig config, ModelFiles files, Kernels kernels, WeightTargets targets) {
        Arena arena = Arena.ofShared();
        try {
            return new Loader(config, files, kernels, targets, arena).load();
        } catch (RuntimeException | Error e) {
            arena.close();
            throw e;
        }
    }

    /// Rows are tokens; decoded row by row.
    Matrix embedding() {
        return embedding;
    }

    /// The same matrix as the embedding if they are tied.
    Matrix lmHead() {
        return lmHead;
    }

    float[] finalNorm() {
        return finalNorm;
    }

    LayerWeights layer(int layer) {
        return layers.get(layer);
    }

    /// Bytes that the matrices take, by format.
    public Map<String, Long> bytesByFormat() {
        return bytesByFormat;
    }

    /// Frees the memory. No transformer may use these weights afterwards.
    @Override
    public void close() {
        arena.close();
    }

    private static final class Loader {
        private final ModelConfig config;
        private final ModelFiles files;
        private final Kernels kernels;
        private final WeightTargets targets;
        private final Map<String, LinearTensor> linears = new HashMap<>();
        private final Arena arena;
        private final Map<String, Long> bytesByFormat = new TreeMap<>();

        Loader(ModelConfig config, ModelFiles files, Kernels kernels, WeightTargets targets, Arena arena) {
            this.config = config;
            this.targets = targets;
            this.files = files;
            this.kernels = kernels;
            this.arena = arena;
        }

        ModelWeights load() {
            LinearTensors tensors = new LinearTensors(files, config.quantization());
            for (TensorExpectation expected : TensorExpectation.of(config)) {
                if (expected.matrix()) {
                    linears.put(expected.name(), expected.open(tensors));
                }
            }
            String p = config.tensorPrefix();
            Matrix embedding = matrix(p + "embed_tokens.weight");
            Matrix lmHead = config.tieWordEmbeddings() ? embedding : matrix(config.lmHeadName());
            List<LayerWeights> layers = new ArrayList<>();
            for (int layer = 0; layer < config.numHiddenLayers(); layer++) {
                layers.add(layer(layer, p + "layers." + layer + "."));
            }
            return new ModelWeights(arena, embedding, lmHead, vector(p + "norm.weight"), layers, bytesByFormat);
        }

        private LayerWeights layer(int layer, String p) {
            boolean outputNorms = config.family() == ModelFamily.GLM4;
            MlaConfig mla = config.mla();
            return new LayerWeights(
                    vector(p + "input_layernorm.weight"),
                    mla == null ? grouped(p + "self_attn.") : latent(mla, p + "self_attn."),
                    outputNorms ? vector(p + "post_self_attn_layernorm.weight") : null,
                    vector(p + "post_attention_layernorm.weight"),
                    feedForward(layer, p + "mlp."),
                    outputNorms ? vector(p + "post_mlp_layernorm.weight") : null);
        }

        private LayerWeights.Grouped grouped(String p) {
            return new LayerWeights.Grouped(
                    matrix(p + "q_proj.weight"),
                    matrix(p + "k_proj.weight"),
                    matrix(p + "v_proj.weight"),
                    vectorIf(config.attentionBias(), p + "q_proj.bias"),
                    vectorIf(config.attentionBias(), p + "k_proj.bias"),
                    vectorIf(config.attentionBias(), p + "v_proj.bias"),
                    vectorIf(config.useQkNorm(), p + "q_norm.weight"),
                    vectorIf(config.useQkNorm(), p + "k_norm.weight"),
                    matrix(p + "o_proj.weight"));
        }

        private LayerWeights.Latent latent(MlaConfig mla, String p) {
            boolean direct = mla.qLoraRank() == 0;
            int rank = mla.kvLoraRank();
            int nope = mla.qkNopeHeadDim();
            int v = mla.vHeadDim();
            List<Matrix> keyUp = new ArrayList<>();
            List<Matrix> valueUp = new ArrayList<>();
            LinearTensor stored = linear(p + "kv_b_proj.weight");
            WeightFormat target = targets.of(stored);
            try (Arena scratch = Arena.ofShared()) {
                // Per head: rows that make un-rotated keys, then rows that make values.
                Matrix.Source up = stored.dense(kernels, scratch);
                for (int head = 0; head < config.numAttentionHeads(); head++) {
                    long first = up.first() + (long) head * (nope + v) * rank;
                    keyUp.add(pack(new Matrix.Source(up.dtype(), up.data(), rank, nope, first, 1, rank), target));
                    long values = first + (long) nope * rank;
                    valueUp.add(pack(new Matrix.Source(up.dtype(), up.data(), v, rank, values, rank, 1), target));
                }
            }
            return new LayerWeights.Latent(
                    direct ? null : matrix(p + "q_a_proj.weight"),
                    direct ? null : vector(p + "q_a_layernorm.weight"),
                    matrix(p + (direct ? "q_proj.weight" : "q_b_proj.weight")),
                    matrix(p + "kv_a_proj_with_mqa.weight"),
                    vector(p + "kv_a_layernorm.weight"),
                    List.copyOf(keyUp),
                    List.copyOf(valueUp),
                    matrix(p + "o_proj.weight"));
        }

        private LayerWeights.FeedForward feedForward(int layer, String p) {
            MoeConfig moe = config.moe();
            if (moe == null || !config.isSparse(layer)) {
                return config.family() == ModelFamily.GLM4 ? fusedMlp(p) : mlp(p);
            }
            List<LayerWeights.Mlp> experts = new ArrayList<>();
            for (int expert = 0; expert < moe.nRoutedExperts(); expert++) {
                experts.add(mlp(p + "experts." + expert + "."));
            }
            return new LayerWeights.Mixture(
                    matrix(p + "gate.weight"),
                    vector(p + "gate.e_score_correction_bias"),
                    List.copyOf(experts),
                    mlp(p + "shared_experts."));
        }

        private LayerWeights.Mlp mlp(String p) {
            return new LayerWeights.Mlp(
                    matrix(p + "gate_proj.weight"), matrix(p + "up_proj.weight"), matrix(p + "down_proj.weight"));
        }

        /// Gate and up in one tensor, the gate's rows first.
        private LayerWeights.Mlp fusedMlp(String p) {
            LinearTensor both = linear(p + "gate_up_proj.weight");
            int inner = config.intermediateSize();
            return new LayerWeights.Mlp(
                    counted(both.matrix(0, inner, targets.of(both), kernels, arena)),
                    counted(both.matrix(inner, inner, targets.of(both), kernels, arena)),
                    matrix(p + "down_proj.weight"));
        }

        private LinearTensor linear(String name) {
            return Objects.requireNonNull(linears.get(name), name);
        }

        private Matrix matrix(String name) {
            LinearTensor linear = linear(name);
            return counted(linear.matrix(targets.of(linear), kernels, arena));
        }

        private Matrix pack(Matrix.Source source, @Nullable WeightFormat target) {
            return counted(kernels.pack(source, target == null ? source.format() : target, arena));
        }

        private Matrix counted(Matrix matrix) {
            bytesByFormat.merge(matrix.format().id(), matrix.data().byteSize(), Long::sum);
            return matrix;
        }

        private float @Nullable [] vectorIf(boolean present, String name) {
            return present ? vector(name) : null;
        }

        private float[] vector(String name) {
            StoredTensor tensor = files.tensor(name);
            float[] values = new float[Math.toIntExact(tensor.elements())];
            Matrix.Source numbers = Matrix.Source.rowMajor(tensor.dtype(), tensor.data(), 1, values.length);
            for (int i = 0; i < values.length; i++) {
                values[i] = numbers.number(0, i);
            }
            return values;
        }
    }
}

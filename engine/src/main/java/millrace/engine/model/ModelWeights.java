package millrace.engine.model;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Experts;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.resident.ArrayRegion;
import millrace.engine.resident.MatrixRegion;
import millrace.engine.resident.Region;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.StoredTensor;
import org.jspecify.annotations.Nullable;

/// All weights of a model, repacked for the kernels, in memory outside the heap.
///
/// Matrices keep the numbers of the file, unless a conversion is asked for, see [WeightTargets]. The files may be
/// closed afterwards.
///
/// All that a step reads is a list of [Region]s, in an order that depends on the config only; each can be made again
/// from the files.
public final class ModelWeights implements AutoCloseable {
    private final ModelConfig config;
    private final WeightTargets targets;
    private final Arena arena;
    private final Matrix embedding;
    private final Matrix lmHead;
    private final float[] finalNorm;
    private final RotaryEmbedding rotary;
    private final List<LayerWeights> layers;
    private final LayerWeights.@Nullable Draft draft;
    private final List<Resident> residents;
    private final List<Region> regions;
    private final Map<String, Long> bytesByFormat;

    private ModelWeights(
            Loader loader,
            Matrix embedding,
            Matrix lmHead,
            float[] finalNorm,
            List<LayerWeights> layers,
            LayerWeights.@Nullable Draft draft) {
        config = loader.config;
        targets = loader.targets;
        arena = loader.arena;
        this.embedding = embedding;
        this.lmHead = lmHead;
        this.finalNorm = finalNorm;
        this.layers = List.copyOf(layers);
        this.draft = draft;
        rotary = new RotaryEmbedding(config.rope());
        // Only the host turns positions into angles.
        loader.keep("", ArrayRegion.of("rotary frequencies", rotary.frequencies()), kernels -> {}, again ->
                ArrayRegion.of("rotary frequencies", new RotaryEmbedding(again.config.rope()).frequencies()));
        residents = List.copyOf(loader.residents);
        regions = residents.stream().map(Resident::region).toList();
        bytesByFormat = Map.copyOf(loader.bytesByFormat);
    }

    /// A region and what it is made from.
    ///
    /// @param source name of the weight in the checkpoint; empty for what the config alone says
    /// @param adoption hands it to the kernels
    private record Resident(String source, Region region, Consumer<Kernels> adoption, Recipe<Region> recipe) {}

    @FunctionalInterface
    private interface Recipe<T> {
        T make(Loader loader);
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

    /// Present exactly if the config has a draft layer.
    LayerWeights.@Nullable Draft draft() {
        return draft;
    }

    RotaryEmbedding rotary() {
        return rotary;
    }

    /// All that steps read.
    public List<Region> regions() {
        return regions;
    }

    /// Names of the tensors that a region was made from; empty for what the config alone says.
    public List<String> tensors(int region, ModelFiles files) {
        String source = residents.get(region).source;
        if (source.isEmpty()) {
            return List.of();
        }
        List<String> names = new LinearTensors(files, config.quantization()).names(source);
        return names.isEmpty() ? List.of(source) : names;
    }

    /// Makes a region again from the files, in memory of the arena.
    ///
    /// @throws millrace.engine.InvalidModelException for files that are not those that were loaded
    public Region again(int region, ModelFiles files, Kernels kernels, Arena memory) {
        Loader loader = new Loader(config, files, kernels, targets, memory);
        Region made = residents.get(region).recipe.make(loader);
        loader.settle();
        return made;
    }

    /// Hands a region to the kernels once more, after it was repaired in place.
    public void adoptAgain(int region, Kernels kernels) {
        residents.get(region).adoption.accept(kernels);
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
        private final LinearTensors tensors;
        private final Map<String, TensorExpectation> expected = new HashMap<>();
        private final Arena arena;
        private final Map<String, Long> bytesByFormat = new TreeMap<>();
        private final List<Resident> residents = new ArrayList<>();
        private final Set<String> touched = new LinkedHashSet<>();

        Loader(ModelConfig config, ModelFiles files, Kernels kernels, WeightTargets targets, Arena arena) {
            this.config = config;
            this.targets = targets;
            this.files = files;
            this.kernels = kernels;
            this.arena = arena;
            tensors = new LinearTensors(files, config.quantization());
            TensorExpectation.of(config).forEach(one -> expected.put(one.name(), one));
        }

        ModelWeights load() {
            String p = config.tensorPrefix();
            Matrix embedding = matrix(p + "embed_tokens.weight");
            Matrix lmHead = config.tieWordEmbeddings() ? embedding : matrix(config.lmHeadName());
            List<LayerWeights> layers = new ArrayList<>();
            for (int layer = 0; layer < config.numHiddenLayers(); layer++) {
                layers.add(layer(layer, p + "layers." + layer + "."));
                settle();
            }
            float[] finalNorm = vector(p + "norm.weight");
            settle();
            DraftConfig draft = config.draft();
            return new ModelWeights(
                    this,
                    embedding,
                    lmHead,
                    finalNorm,
                    layers,
                    draft == null ? null : draft(draft, config.draftPrefix(), embedding, lmHead));
        }

        private LayerWeights.Draft draft(DraftConfig draft, String p, Matrix embedding, Matrix lmHead) {
            var weights = new LayerWeights.Draft(
                    vector(p + DraftConfig.EMBEDDING_NORM),
                    vector(p + DraftConfig.HIDDEN_NORM),
                    matrix(p + DraftConfig.PROJECTION),
                    layer(config.numHiddenLayers(), p),
                    vector(p + DraftConfig.HEAD_NORM),
                    draft.ownEmbedding() ? matrix(p + DraftConfig.EMBEDDING) : embedding,
                    draft.ownHead() ? matrix(p + DraftConfig.HEAD) : lmHead);
            settle();
            return weights;
        }

        /// What was read is compared with what was hashed, while it is still near: a file that somebody wrote to in
        /// between is found.
        void settle() {
            files.requireUnchanged(touched, kernels::forEach);
            touched.clear();
        }

        private LayerWeights layer(int layer, String p) {
            boolean outputNorms = config.family() == ModelFamily.GLM4;
            MlaConfig mla = config.mla();
            return new LayerWeights(
                    vector(p + "input_layernorm.weight"),
                    mla == null ? grouped(p + "self_attn.") : latent(mla, config.indexes(layer), p + "self_attn."),
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

        private LayerWeights.Latent latent(MlaConfig mla, boolean indexes, String p) {
            boolean direct = mla.qLoraRank() == 0;
            List<Matrix> keyUp = new ArrayList<>();
            List<Matrix> valueUp = new ArrayList<>();
            String name = p + "kv_b_proj.weight";
            try (Arena scratch = Arena.ofShared()) {
                Matrix.Source up = linear(name).dense(kernels, scratch);
                for (int i = 0; i < config.numAttentionHeads(); i++) {
                    int head = i;
                    keyUp.add(kept(name, " keys of head " + i, pack(name, keys(mla, up, i)), again -> again.ofHead(
                            name, source -> keys(mla, source, head))));
                    valueUp.add(kept(name, " values of head " + i, pack(name, values(mla, up, i)), again -> again.ofHead(
                            name, source -> values(mla, source, head))));
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
                    matrix(p + "o_proj.weight"),
                    indexes ? indexer(p + "indexer.") : null);
        }

        private LayerWeights.Indexer indexer(String p) {
            return new LayerWeights.Indexer(
                    matrix(p + "wq_b.weight"),
                    matrix(p + "wk.weight"),
                    vector(p + "k_norm.weight"),
                    vector(p + "k_norm.bias"),
                    matrix(p + WeightTargets.INDEX_WEIGHTS));
        }

        private Matrix ofHead(String name, UnaryOperator<Matrix.Source> part) {
            try (Arena scratch = Arena.ofShared()) {
                return pack(name, part.apply(linear(name).dense(kernels, scratch)));
            }
        }

        /// Per head there are rows that make un-rotated keys, then rows that make values. Keys are turned.
        private static Matrix.Source keys(MlaConfig mla, Matrix.Source up, int head) {
            int rank = mla.kvLoraRank();
            int nope = mla.qkNopeHeadDim();
            return new Matrix.Source(up.dtype(), up.data(), rank, nope, firstOfHead(mla, up, head), 1, rank);
        }

        private static Matrix.Source values(MlaConfig mla, Matrix.Source up, int head) {
            int rank = mla.kvLoraRank();
            long first = firstOfHead(mla, up, head) + (long) mla.qkNopeHeadDim() * rank;
            return new Matrix.Source(up.dtype(), up.data(), mla.vHeadDim(), rank, first, rank, 1);
        }

        private static long firstOfHead(MlaConfig mla, Matrix.Source up, int head) {
            return up.first() + (long) head * (mla.qkNopeHeadDim() + mla.vHeadDim()) * mla.kvLoraRank();
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
                    experts(experts, LayerWeights.Mlp::gate),
                    experts(experts, LayerWeights.Mlp::up),
                    experts(experts, LayerWeights.Mlp::down),
                    mlp(p + "shared_experts."));
        }

        private Experts experts(List<LayerWeights.Mlp> all, Function<LayerWeights.Mlp, Matrix> part) {
            var experts = new Experts(all.stream().map(part).toList());
            kernels.adopt(experts);
            return experts;
        }

        private LayerWeights.Mlp mlp(String p) {
            return new LayerWeights.Mlp(
                    matrix(p + "gate_proj.weight"), matrix(p + "up_proj.weight"), matrix(p + "down_proj.weight"));
        }

        /// Gate and up in one tensor, the gate's rows first.
        private LayerWeights.Mlp fusedMlp(String p) {
            String both = p + "gate_up_proj.weight";
            int inner = config.intermediateSize();
            return new LayerWeights.Mlp(
                    matrix(both, " gate", 0, inner), matrix(both, " up", inner, inner), matrix(p + "down_proj.weight"));
        }

        private LinearTensor linear(String name) {
            touched.addAll(tensors.names(name));
            return Objects.requireNonNull(expected.get(name), name).open(tensors);
        }

        private Matrix matrix(String name) {
            return matrix(name, "", 0, linear(name).rows());
        }

        private Matrix matrix(String name, String part, int first, int rows) {
            return kept(name, part, rows(name, first, rows), again -> again.rows(name, first, rows));
        }

        private Matrix rows(String name, int first, int rows) {
            LinearTensor linear = linear(name);
            return linear.matrix(first, rows, targets.of(linear), kernels, arena);
        }

        private Matrix pack(String name, Matrix.Source source) {
            WeightFormat target = targets.of(linear(name));
            return kernels.pack(source, target == null ? source.format() : target, arena);
        }

        private Matrix kept(String name, String part, Matrix matrix, Recipe<Matrix> recipe) {
            String full = name + part;
            Consumer<Kernels> adoption = to -> to.adopt(matrix);
            keep(name, new MatrixRegion(full, matrix), adoption, again -> new MatrixRegion(full, recipe.make(again)));
            if (matrix.format() == WeightFormat.PACKED) {
                String panels = full + " panels";
                keep(name, ArrayRegion.ofPanels(panels, matrix), adoption, again ->
                        ArrayRegion.ofPanels(panels, recipe.make(again)));
            }
            kernels.adopt(matrix);
            return counted(matrix);
        }

        private void keep(String source, Region region, Consumer<Kernels> adoption, Recipe<Region> recipe) {
            residents.add(new Resident(source, region, adoption, recipe));
        }

        private Matrix counted(Matrix matrix) {
            bytesByFormat.merge(matrix.format().id(), matrix.data().byteSize(), Long::sum);
            return matrix;
        }

        private float @Nullable [] vectorIf(boolean present, String name) {
            return present ? vector(name) : null;
        }

        private float[] vector(String name) {
            float[] values = numbers(name);
            keep(name, ArrayRegion.of(name, values), to -> to.adopt(values), again ->
                    ArrayRegion.of(name, again.numbers(name)));
            kernels.adopt(values);
            return values;
        }

        private float[] numbers(String name) {
            touched.add(name);
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

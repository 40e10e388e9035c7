package millrace.engine.model;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.engine.InvalidModelException;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.kernel.DType;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.StoredTensor;
import millrace.engine.weights.Text;

/// A tensor that a config asks for, by name and exact shape.
///
/// @param shape dimensions, outermost first
/// @param drafting whether it belongs to a draft layer
public record TensorExpectation(String name, List<Long> shape, boolean drafting) {
    private static final Set<DType> USABLE = Set.of(DType.BF16, DType.F16, DType.F32);
    /// Exports of several years carry these tables; they are computed instead.
    private static final String INV_FREQ = ".rotary_emb.inv_freq";

    public TensorExpectation {
        shape = List.copyOf(shape);
    }

    /// All tensors of a model, those of the layers in order, those of a draft layer last.
    public static List<TensorExpectation> of(ModelConfig config) {
        var all = new ArrayList<TensorExpectation>();
        addAll(all::add, config);
        return all;
    }

    private static void addAll(Consumer<TensorExpectation> all, ModelConfig config) {
        String p = config.tensorPrefix();
        long hidden = config.hiddenSize();
        add(all, p + "embed_tokens.weight", config.vocabSize(), hidden);
        for (int layer = 0; layer < config.numHiddenLayers(); layer++) {
            addLayer(all, config, layer);
        }
        add(all, p + "norm.weight", hidden);
        if (!config.tieWordEmbeddings()) {
            add(all, config.lmHeadName(), config.vocabSize(), hidden);
        }
        if (config.draft() != null) {
            addDraft(one -> all.accept(new TensorExpectation(one.name, one.shape, true)), config, config.draft());
        }
    }

    private static void addDraft(Consumer<TensorExpectation> all, ModelConfig config, DraftConfig draft) {
        String p = config.draftPrefix();
        long hidden = config.hiddenSize();
        if (draft.ownEmbedding()) {
            add(all, p + DraftConfig.EMBEDDING, config.vocabSize(), hidden);
        }
        add(all, p + DraftConfig.EMBEDDING_NORM, hidden);
        add(all, p + DraftConfig.HIDDEN_NORM, hidden);
        add(all, p + DraftConfig.PROJECTION, hidden, 2 * hidden);
        addLayer(all, config, config.numHiddenLayers());
        add(all, p + DraftConfig.HEAD_NORM, hidden);
        if (draft.ownHead()) {
            add(all, p + DraftConfig.HEAD, config.vocabSize(), hidden);
        }
    }

    private static void addLayer(Consumer<TensorExpectation> all, ModelConfig config, int layer) {
        String p = config.tensorPrefix() + "layers." + layer + ".";
        long hidden = config.hiddenSize();
        add(all, p + "input_layernorm.weight", hidden);
        if (config.mla() != null) {
            addLatentAttention(all, config, config.mla(), p + "self_attn.");
            if (config.indexer() != null && config.indexes(layer)) {
                addIndexer(all, config, config.mla(), config.indexer(), p + "self_attn.indexer.");
            }
        } else {
            addGroupedAttention(all, config, p + "self_attn.");
        }
        add(all, p + "post_attention_layernorm.weight", hidden);
        if (config.family() == ModelFamily.GLM4) {
            add(all, p + "post_self_attn_layernorm.weight", hidden);
            add(all, p + "post_mlp_layernorm.weight", hidden);
            add(all, p + "mlp.gate_up_proj.weight", 2L * config.intermediateSize(), hidden);
            add(all, p + "mlp.down_proj.weight", hidden, config.intermediateSize());
        } else if (config.moe() != null && config.isSparse(layer)) {
            addExperts(all, config.moe(), hidden, p + "mlp.");
        } else {
            addMlp(all, p + "mlp.", hidden, config.intermediateSize());
        }
    }

    private static void addGroupedAttention(Consumer<TensorExpectation> all, ModelConfig config, String p) {
        long hidden = config.hiddenSize();
        long queries = (long) config.numAttentionHeads() * config.headDim();
        long keys = (long) config.numKeyValueHeads() * config.headDim();
        BiConsumer<String, Long> projection = (name, rows) -> {
            add(all, p + name + ".weight", rows, hidden);
            if (config.attentionBias()) {
                add(all, p + name + ".bias", rows);
            }
        };
        projection.accept("q_proj", queries);
        projection.accept("k_proj", keys);
        projection.accept("v_proj", keys);
        add(all, p + "o_proj.weight", hidden, queries);
        if (config.useQkNorm()) {
            add(all, p + "q_norm.weight", config.headDim());
            add(all, p + "k_norm.weight", config.headDim());
        }
    }

    private static void addLatentAttention(
            Consumer<TensorExpectation> all, ModelConfig config, MlaConfig mla, String p) {
        long hidden = config.hiddenSize();
        long heads = config.numAttentionHeads();
        long queries = heads * mla.qkHeadDim();
        if (mla.qLoraRank() == 0) {
            add(all, p + "q_proj.weight", queries, hidden);
        } else {
            add(all, p + "q_a_proj.weight", mla.qLoraRank(), hidden);
            add(all, p + "q_a_layernorm.weight", mla.qLoraRank());
            add(all, p + "q_b_proj.weight", queries, mla.qLoraRank());
        }
        add(all, p + "kv_a_proj_with_mqa.weight", mla.kvLoraRank() + mla.qkRopeHeadDim(), hidden);
        add(all, p + "kv_a_layernorm.weight", mla.kvLoraRank());
        add(all, p + "kv_b_proj.weight", heads * (mla.qkNopeHeadDim() + mla.vHeadDim()), mla.kvLoraRank());
        add(all, p + "o_proj.weight", hidden, heads * mla.vHeadDim());
    }

    private static void addIndexer(
            Consumer<TensorExpectation> all, ModelConfig config, MlaConfig mla, IndexerConfig indexer, String p) {
        long hidden = config.hiddenSize();
        add(all, p + "wq_b.weight", (long) indexer.heads() * indexer.headDim(), mla.qLoraRank());
        add(all, p + "wk.weight", indexer.headDim(), hidden);
        add(all, p + "k_norm.weight", indexer.headDim());
        add(all, p + "k_norm.bias", indexer.headDim());
        add(all, p + WeightTargets.INDEX_WEIGHTS, indexer.heads(), hidden);
    }

    private static void addExperts(Consumer<TensorExpectation> all, MoeConfig moe, long hidden, String p) {
        add(all, p + "gate.weight", moe.nRoutedExperts(), hidden);
        add(all, p + "gate.e_score_correction_bias", moe.nRoutedExperts());
        addMlp(all, p + "shared_experts.", hidden, (long) moe.nSharedExperts() * moe.moeIntermediateSize());
        for (int expert = 0; expert < moe.nRoutedExperts(); expert++) {
            addMlp(all, p + "experts." + expert + ".", hidden, moe.moeIntermediateSize());
        }
    }

    private static void addMlp(Consumer<TensorExpectation> all, String p, long hidden, long inner) {
        add(all, p + "gate_proj.weight", inner, hidden);
        add(all, p + "up_proj.weight", inner, hidden);
        add(all, p + "down_proj.weight", hidden, inner);
    }

    private static void add(Consumer<TensorExpectation> all, String name, long... shape) {
        all.accept(new TensorExpectation(name, Arrays.stream(shape).boxed().toList(), false));
    }

    /// Refuses weights that are not those of the config: a tensor that is missing, misshaped, of a type that is not
    /// computed with, or unexplained. The last catches a checkpoint of another family that fits by chance.
    ///
    /// @return number of parameters
    /// @throws InvalidModelException `MODEL_TENSOR_*`, `MODEL_QUANT_*`, `BLOCK_*`
    public static long check(ModelConfig config, ModelFiles files) {
        // One by one: a config may ask for more tensors than there is memory for, but the first missing one ends it.
        Set<String> names = new HashSet<>();
        var parameters = new LongAdder();
        var linears = new LinearTensors(files, config.quantization());
        addAll(one -> parameters.add(one.checkThis(config, files, linears, names)), config);
        Pattern layerOf = Pattern.compile(Pattern.quote(config.tensorPrefix() + "layers.") + "(\\d{1,9})\\..+");
        for (String name : files.tensorNames()) {
            if (!names.contains(name) && !skipped(name, config, layerOf)) {
                throw new InvalidModelException(
                        "MODEL_TENSOR_UNEXPECTED",
                        "weights: expected only tensors of " + config.architecture() + ", got also " + Text.quote(name)
                                + "; check that config.json belongs to these weights");
            }
        }
        return parameters.sum();
    }

    /// Whether it is a matrix of a linear layer, of the embedding or of a router.
    public boolean matrix() {
        return shape.size() == 2;
    }

    /// Whether a quantiser may have taken it: embeddings and routers are not linear layers to their libraries, and the
    /// weights of index heads are left as they are.
    private boolean linear() {
        return matrix()
                && !name.endsWith("embed_tokens.weight")
                && !name.endsWith(".mlp.gate.weight")
                && !name.endsWith("indexer." + WeightTargets.INDEX_WEIGHTS);
    }

    /// Whether a quantiser left it alone without saying so. Many never see draft layers, which they copy from the model that
    /// they were given, and what is particular to such a layer is not of the classes that others convert.
    private boolean leftAlone(LinearTensors tensors) {
        return drafting && tensors.plain(name);
    }

    /// The matrix's tensors, checked.
    public LinearTensor open(LinearTensors tensors) {
        return tensors.open(name, linear() && !leftAlone(tensors), Math.toIntExact(shape.get(0)), Math.toIntExact(shape.get(1)));
    }

    private long checkThis(ModelConfig config, ModelFiles files, LinearTensors linears, Set<String> names) {
        if (matrix()) {
            List<String> parts = linears.names(name);
            if (parts.isEmpty()) {
                throw missing(config);
            }
            names.addAll(parts);
            open(linears);
            return shape.get(0) * shape.get(1);
        }
        names.add(name);
        if (!files.has(name)) {
            throw missing(config);
        }
        StoredTensor tensor = files.tensor(name);
        List<Long> got = Arrays.stream(tensor.shape()).boxed().toList();
        if (!got.equals(shape)) {
            throw new InvalidModelException(
                    "MODEL_TENSOR_SHAPE",
                    "weights: " + name + ": expected shape " + shape + " by config.json, got " + got
                            + "; check that config.json belongs to these weights");
        }
        if (!USABLE.contains(tensor.dtype())) {
            throw new InvalidModelException(
                    "MODEL_TENSOR_DTYPE",
                    "weights: " + name + ": expected BF16, F16 or F32, got " + tensor.dtype()
                            + "; use an unquantised checkpoint of this model");
        }
        return tensor.elements();
    }

    private InvalidModelException missing(ModelConfig config) {
        return new InvalidModelException(
                "MODEL_TENSOR_MISSING",
                "weights: expected tensor " + name + " of " + config.architecture()
                        + ", got weights without it; complete the checkpoint");
    }

    /// Whether a tensor may stand in the checkpoint without being computed with.
    private static boolean skipped(String name, ModelConfig config, Pattern layerOf) {
        if (name.endsWith(INV_FREQ) || (config.tieWordEmbeddings() && name.equals(config.lmHeadName()))) {
            return true;
        }
        boolean wrapped = !config.tensorPrefix().equals("model.");
        if (wrapped && (name.startsWith("vision_tower.") || name.startsWith("mm_projector."))) {
            return true;
        }
        // Draft layers for multi-token prediction follow the last layer; at most the first is computed with.
        Matcher layer = layerOf.matcher(name);
        return config.family().mixtureOfExperts()
                && layer.matches()
                && Integer.parseInt(layer.group(1)) >= config.cachedLayers();
    }
}

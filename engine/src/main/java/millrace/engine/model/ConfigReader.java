package millrace.engine.model;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import millrace.engine.weights.JsonFiles;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.Text;
import org.jspecify.annotations.Nullable;

/// Normalises config.json: old and new spellings, wrappers, defaults of the reference; refuses what is not understood.
///
/// A key that changes the mathematics is either computed with or refused, never ignored.
final class ConfigReader {
    static final int MAX_CONTEXT = 1 << 28;
    private static final int MAX_WIDTH = 1 << 20;

    private final ConfigSection text;
    private final ConfigSection top;
    private final Architecture architecture;
    private final ModelFamily family;

    private ConfigReader(ConfigSection top, ConfigSection text, Architecture architecture) {
        this.top = top;
        this.text = text;
        this.architecture = architecture;
        this.family = architecture.family();
    }

    static ModelConfig read(byte[] config, byte @Nullable [] generationConfig) {
        ConfigReader reader = of(config);
        ConfigSection generation = generationConfig == null
                ? null
                : new ConfigSection(
                        ModelFiles.GENERATION_CONFIG,
                        JsonFiles.object(generationConfig, ModelFiles.GENERATION_CONFIG, "CONFIG_JSON"));
        return reader.read(generation);
    }

    /// How many draft layers the model has, whether they are in the checkpoint or not.
    static int draftLayers(byte[] config) {
        return of(config).readDraftLayers();
    }

    private static ConfigReader of(byte[] config) {
        var top = new ConfigSection(ModelFiles.CONFIG, JsonFiles.object(config, ModelFiles.CONFIG, "CONFIG_JSON"));
        ConfigSection inner = top.section("text_config");
        ConfigSection text = inner == null ? top : inner;
        Architecture architecture = Architecture.of(top, text);
        if (architecture.wrapper() != (inner != null)) {
            throw top.error(
                    "CONFIG_ARCHITECTURE",
                    "text_config",
                    architecture.wrapper() ? "an object, as " + architecture.name() + " wraps a text model" : "none",
                    inner == null ? "none" : "one",
                    "restore config.json");
        }
        return new ConfigReader(top, text, architecture);
    }

    private int readDraftLayers() {
        return family.mixtureOfExperts() ? text.integerOr("num_nextn_predict_layers", 0, 1024, 0) : 0;
    }

    /// Dense models may leave it out; then it is what the classes of Hugging Face `transformers` take.
    private int readContext() {
        String key = "max_position_embeddings";
        return switch (family) {
            case LLAMA -> text.integerOr(key, 1, MAX_CONTEXT, 2048);
            case QWEN2, QWEN3 -> text.integerOr(key, 1, MAX_CONTEXT, 32_768);
            case GLM4 -> text.integerOr(key, 1, MAX_CONTEXT, 131_072);
            case GLM4_MOE, GLM4_MOE_LITE, DEEPSEEK_V3, DEEPSEEK_V32, GLM_MOE_DSA -> text.integer(key, 1, MAX_CONTEXT);
        };
    }

    private ModelConfig read(@Nullable ConfigSection generation) {
        refuseUnsupported();
        readDraftLayers(); // refuses what is no number of layers, even where it is not drafted with
        int layers = text.integer("num_hidden_layers", 1, 1024);
        int hidden = text.integer("hidden_size", 1, MAX_WIDTH);
        int heads = text.integer("num_attention_heads", 1, 4096);
        int vocab = text.integer("vocab_size", 1, 1 << 24);
        int context = readContext();
        MlaConfig mla = family.latentAttention() ? readMla() : null;
        if (!family.sparseAttention()) {
            IndexerReader.requireNone(text, family);
        }
        int keyValueHeads = mla != null ? heads : text.integerOr("num_key_value_heads", 1, heads, heads);
        if (heads % keyValueHeads != 0) {
            throw text.range("num_key_value_heads", "a divisor of num_attention_heads " + heads, keyValueHeads);
        }
        int headDim = mla != null ? mla.qkHeadDim() : readHeadDim(hidden, heads);
        return new ModelConfig(
                family,
                architecture.modelType(),
                architecture.name(),
                architecture.tensorPrefix(),
                architecture.lmHeadName(),
                vocab,
                hidden,
                layers,
                heads,
                keyValueHeads,
                headDim,
                text.integer("intermediate_size", 1, MAX_WIDTH),
                (float) text.number("rms_norm_eps", 1e-12, 1e-1),
                family == ModelFamily.QWEN2 || (mla == null && text.flag("attention_bias", false)),
                family == ModelFamily.QWEN3 || text.flag("use_qk_norm", false),
                text.flag("tie_word_embeddings", top.flag("tie_word_embeddings", false)),
                readRope(mla, headDim),
                mla,
                family.mixtureOfExperts() ? readMoe(layers) : null,
                mla != null && family.sparseAttention()
                        ? IndexerReader.read(text, family, layers, mla.qkRopeHeadDim(), context)
                        : null,
                null,
                context,
                readEos(vocab, generation),
                QuantizationReader.read(top, text, wrapperPrefix()));
    }

    /// What names of a wrapper's tensors begin with and those of its text model alone do not.
    private String wrapperPrefix() {
        String all = architecture.tensorPrefix();
        return architecture.wrapper() ? all.substring(0, all.length() - "model.".length()) : "";
    }

    private int readHeadDim(int hidden, int heads) {
        if (text.has("head_dim")) {
            return text.integer("head_dim", 1, 4096);
        }
        if (hidden % heads != 0) {
            throw text.range("num_attention_heads", "a divisor of hidden_size " + hidden + ", or a head_dim", heads);
        }
        return hidden / heads;
    }

    private MlaConfig readMla() {
        String queryRank = "q_lora_rank";
        return new MlaConfig(
                // An indexer takes its queries from the latent.
                family.sparseAttention()
                        ? text.integer(queryRank, 1, MAX_WIDTH)
                        : text.integerOr(queryRank, 1, MAX_WIDTH, 0),
                text.integer("kv_lora_rank", 1, MAX_WIDTH),
                text.integer("qk_nope_head_dim", 1, 4096),
                text.integer("qk_rope_head_dim", 2, 4096),
                text.integer("v_head_dim", 1, 4096));
    }

    // ------------------------------------------------------------------------------------------------ refusals

    private void refuseUnsupported() {
        requireText("hidden_act", "silu");
        requireText("scoring_func", "sigmoid");
        requireText("moe_router_activation_func", "sigmoid");
        requireText("topk_method", "noaux_tc");
        requireText("moe_router_dtype", "float32");
        refuseFlag("use_sliding_window", "CONFIG_SLIDING_WINDOW");
        refuseFlag("mlp_bias", "CONFIG_UNSUPPORTED");
        if (text.has("layer_types")) {
            for (String type : text.texts("layer_types")) {
                if (!type.equals("full_attention")) {
                    throw text.error(
                            "CONFIG_SLIDING_WINDOW",
                            "layer_types",
                            "full_attention in every layer",
                            Text.quote(type),
                            "use a model without windowed layers");
                }
            }
        }
        boolean biasKnown = family == ModelFamily.GLM4 || family == ModelFamily.GLM4_MOE || family == ModelFamily.QWEN2;
        if (!biasKnown) {
            // There, a bias would also stand on the output projection or on the latents.
            refuseFlag("attention_bias", "CONFIG_UNSUPPORTED");
        }
        if (family != ModelFamily.GLM4_MOE && family != ModelFamily.QWEN3) {
            refuseFlag("use_qk_norm", "CONFIG_UNSUPPORTED");
        }
        if (!family.mixtureOfExperts()) {
            for (String key : List.of("n_routed_experts", "num_experts", "num_local_experts")) {
                if (text.has(key)) {
                    throw text.error(
                            "CONFIG_UNSUPPORTED",
                            key,
                            "none in a " + family + " model",
                            "one",
                            "restore config.json");
                }
            }
        }
    }

    private void requireText(String key, String supported) {
        String value = text.textOr(key, supported);
        if (!value.equals(supported)) {
            throw text.error("CONFIG_UNSUPPORTED", key, supported, Text.quote(value), "use a supported model");
        }
    }

    private void refuseFlag(String key, String code) {
        if (text.flag(key, false)) {
            throw text.error(code, key, "false in a " + family + " model", "true", "use a supported model");
        }
    }

    // ---------------------------------------------------------------------------------------------------- rope

    private RopeConfig readRope(@Nullable MlaConfig mla, int headDim) {
        ConfigSection parameters = text.section("rope_parameters");
        ConfigSection scaling = text.section("rope_scaling");
        ConfigSection rope = parameters != null ? parameters : scaling != null ? scaling : text.empty();
        double theta;
        if (parameters != null && parameters.has("rope_theta")) {
            theta = parameters.number("rope_theta", 1.0001, 1e15);
        } else if (text.has("rope_theta") || family != ModelFamily.LLAMA) {
            theta = text.number("rope_theta", 1.0001, 1e15);
        } else {
            theta = 10_000; // Llama's first configs, before the key existed
        }
        int rotaryDim = mla != null ? mla.qkRopeHeadDim() : rotaryDim(parameters, headDim);
        if (rotaryDim % 2 != 0 || rotaryDim == 0) {
            throw text.range("partial_rotary_factor", "an even number of rotated dimensions", rotaryDim);
        }
        boolean interleaved = mla != null ? text.flag("rope_interleave", true) : family == ModelFamily.GLM4;
        return new RopeConfig(theta, rotaryDim, interleaved, readScaling(rope));
    }

    private int rotaryDim(@Nullable ConfigSection parameters, int headDim) {
        boolean partial = family == ModelFamily.GLM4 || family == ModelFamily.GLM4_MOE;
        ConfigSection section = parameters != null && parameters.has("partial_rotary_factor") ? parameters : text;
        double factor = section.numberOr("partial_rotary_factor", 1e-3, 1, partial ? 0.5 : 1);
        if (!partial && factor != 1) {
            throw section.range("partial_rotary_factor", "1 in a " + family + " model", factor);
        }
        return (int) (headDim * factor);
    }

    private static RopeScaling readScaling(ConfigSection rope) {
        String type = rope.textOr("rope_type", rope.textOr("type", "default"));
        if (!type.equals(rope.textOr("type", type))) {
            throw rope.error(
                    "CONFIG_ROPE", "type", "the same as rope_type", "two different values", "restore config.json");
        }
        return switch (type.toLowerCase(Locale.ROOT)) {
            case "default" -> {
                // A factor beside no type would be scaling that is not applied.
                if (rope.has("factor")) {
                    throw rope.error(
                            "CONFIG_ROPE",
                            "rope_type",
                            "yarn or llama3 beside a factor",
                            "none",
                            "restore config.json");
                }
                yield new RopeScaling.None();
            }
            case "yarn" -> new RopeScaling.Yarn(
                    rope.number("factor", 1, 1e6),
                    rope.integer("original_max_position_embeddings", 1, 1 << 28),
                    rope.numberOr("beta_fast", 1e-6, 1e6, 32),
                    rope.numberOr("beta_slow", 1e-6, 1e6, 1),
                    rope.numberOrNull("mscale", 0, 1e6),
                    rope.numberOrNull("mscale_all_dim", 0, 1e6),
                    rope.numberOrNull("attention_factor", 1e-6, 1e6),
                    rope.flag("truncate", true));
            case "llama3" -> readLlama3(rope);
            default -> throw rope.error(
                    "CONFIG_ROPE",
                    "rope_type",
                    "default, yarn or llama3",
                    Text.quote(type),
                    "use a model with a supported scaling");
        };
    }

    private static RopeScaling readLlama3(ConfigSection rope) {
        double low = rope.number("low_freq_factor", 1e-6, 1e6);
        double high = rope.number("high_freq_factor", 1e-6, 1e6);
        if (high <= low) {
            throw rope.range("high_freq_factor", "more than low_freq_factor " + low, high);
        }
        return new RopeScaling.Llama3(
                rope.number("factor", 1, 1e6),
                low,
                high,
                rope.integer("original_max_position_embeddings", 1, 1 << 28));
    }

    // ------------------------------------------------------------------------------------------------- experts

    private @Nullable MoeConfig readMoe(int layers) {
        String expertsKey = text.alias("n_routed_experts", "num_experts");
        if (!text.has(expertsKey)) {
            return null;
        }
        int experts = text.integer(expertsKey, 1, 1 << 16);
        String groupsKey = text.alias("n_group", "num_expert_group");
        // The reference leaves both at 1 in GLM-5.
        boolean may = family == ModelFamily.GLM_MOE_DSA;
        int groups = may ? text.integerOr(groupsKey, 1, experts, 1) : text.integer(groupsKey, 1, experts);
        int keep = may ? text.integerOr("topk_group", 1, groups, 1) : text.integer("topk_group", 1, groups);
        int perToken = text.integer(text.alias("num_experts_per_tok", "num_experts_per_token"), 1, experts);
        if (experts % groups != 0 || (groups > 1 && experts / groups < 2)) {
            throw text.range("n_group", "groups of equal size, of two or more, from " + experts + " experts", groups);
        }
        if (perToken > experts / groups * keep) {
            throw text.range("num_experts_per_tok", "at most the experts of " + keep + " groups", perToken);
        }
        return new MoeConfig(
                experts,
                perToken,
                text.integer(text.alias("n_shared_experts", "num_shared_experts"), 1, 64),
                text.integer("moe_intermediate_size", 1, MAX_WIDTH),
                groups,
                keep,
                text.flag(text.alias("norm_topk_prob", "moe_renormalize"), true),
                (float) text.number("routed_scaling_factor", 1e-6, 1e6),
                sparseLayers(layers));
    }

    private List<Boolean> sparseLayers(int layers) {
        var sparse = new ArrayList<Boolean>(layers);
        if (text.has("mlp_layer_types")) {
            List<String> types = text.texts("mlp_layer_types");
            if (types.size() < layers || !Set.of("dense", "sparse").containsAll(types)) {
                throw text.error(
                        "CONFIG_RANGE",
                        "mlp_layer_types",
                        "dense or sparse for each of " + layers + " layers",
                        types.size() + " values " + new TreeSet<>(types).stream().map(Text::quote).limit(4).toList(),
                        "restore config.json");
            }
            types.subList(0, layers).forEach(type -> sparse.add(type.equals("sparse")));
            return sparse;
        }
        int firstSparse = text.integer("first_k_dense_replace", 0, layers);
        int frequency = text.integerOr("moe_layer_freq", 1, layers, 1);
        for (int layer = 0; layer < layers; layer++) {
            sparse.add(layer >= firstSparse && layer % frequency == 0);
        }
        return sparse;
    }

    private List<Integer> readEos(int vocab, @Nullable ConfigSection generation) {
        Set<Integer> ids = new LinkedHashSet<>(text.integers("eos_token_id", 0, vocab - 1));
        ids.addAll(top.integers("eos_token_id", 0, vocab - 1));
        if (generation != null) {
            ids.addAll(generation.integers("eos_token_id", 0, vocab - 1));
        }
        return List.copyOf(ids);
    }
}

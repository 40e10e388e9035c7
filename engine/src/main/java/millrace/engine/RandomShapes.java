package millrace.engine;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;

/// Chooses the sizes of a random model: those of a published family, scaled to a number of parameters.
///
/// Head dimensions, the latent and the share of a layer's parts are kept, since kernels and caches feel them; width and
/// depth shrink together.
final class RandomShapes {
    static final List<String> ARCHITECTURES = List.of("llama", "glm4_moe", "kimi_k2", "glm_moe_dsa");

    static final long LEAST = 100_000;
    static final long MOST = 1_000_000_000_000L;

    /// A deviation of the parameters that is not worth an odd shape.
    private static final double TOLERANCE = 0.05;

    private static final int CONTEXT = 131_072;

    private RandomShapes() {}

    /// What config.json says, but for the ids that end a turn.
    static ObjectNode config(String architecture, long parameters) {
        if (parameters < LEAST || parameters > MOST) {
            throw new IllegalArgumentException("parameters of a random model: expected from 100k to 1000b, got " + parameters);
        }
        Family family = switch (architecture) {
            case "llama" -> new Family(128, RandomShapes::llama);
            case "glm4_moe" -> new Family(89, RandomShapes::glm);
            case "kimi_k2" -> new Family(117, RandomShapes::kimi);
            case "glm_moe_dsa" -> new Family(79, RandomShapes::glm5);
            default -> throw new IllegalArgumentException("architecture of a random model: expected one of "
                    + String.join(", ", ARCHITECTURES) + ", got \"" + architecture + "\"");
        };
        return family.nearest(parameters);
    }

    /// @param aspect width over depth, as published
    private record Family(int aspect, Shape shape) {
        ObjectNode nearest(long parameters) {
            int vocab = parameters < 20_000_000 ? 512 : parameters < 200_000_000 ? 8_192 : 32_000;
            Candidate best = null;
            double least = Double.MAX_VALUE;
            for (int hidden = 64; hidden <= 16_384; hidden += hidden < 256 ? 64 : 256) {
                for (int layers = 2; layers <= 160; layers++) {
                    Candidate candidate = shape.of(hidden, layers, vocab, parameters);
                    double miss = Math.abs(Math.log((double) candidate.parameters() / parameters));
                    double form = Math.abs(Math.log((double) hidden / layers / aspect));
                    double cost = 20 * Math.max(0, miss - TOLERANCE) + form;
                    if (cost < least) {
                        least = cost;
                        best = candidate;
                    }
                }
            }
            if (best == null) {
                throw new IllegalStateException("random model: no shape at all");
            }
            return best.config();
        }
    }

    private interface Shape {
        Candidate of(int hidden, int layers, int vocab, long wanted);
    }

    private record Candidate(long parameters, ObjectNode config) {}

    private static Candidate llama(int hidden, int layers, int vocab, long wanted) {
        int headDim = hidden <= 2048 ? Math.min(64, hidden / 2) : 128;
        int heads = hidden / headDim;
        int kvHeads = divisor(heads, Math.max(1, heads / 4));
        long inner = 4L * hidden;
        long layer = 2L * hidden * hidden + 2L * hidden * kvHeads * headDim + 3 * inner * hidden;
        return new Candidate(
                (long) vocab * hidden + layers * layer,
                llamaConfig(hidden, layers, heads, kvHeads, (int) inner, vocab, CONTEXT));
    }

    static ObjectNode llamaConfig(
            int hidden, int layers, int heads, int kvHeads, int inner, int vocab, int context) {
        ObjectNode config = common("LlamaForCausalLM", "llama", hidden, layers, vocab, context);
        config.put("num_attention_heads", heads).put("num_key_value_heads", kvHeads).put("intermediate_size", inner);
        config.put("rope_theta", 500_000.0);
        return config.put("attention_bias", false).put("mlp_bias", false).put("tie_word_embeddings", true);
    }

    private static Candidate glm(int hidden, int layers, int vocab, long wanted) {
        int headDim = hidden < 1024 ? Math.min(64, hidden / 2) : 128;
        int heads = Math.max(2, hidden / headDim);
        int kvHeads = divisor(heads, Math.max(1, heads / 8));
        Experts experts = Experts.of(hidden, wanted, 0.34, 2.67);
        long attention = 2L * hidden * heads * headDim + 2L * hidden * kvHeads * headDim;
        ObjectNode config = common("Glm4MoeForCausalLM", "glm4_moe", hidden, layers, vocab, CONTEXT);
        config.put("num_attention_heads", heads).put("num_key_value_heads", kvHeads).put("head_dim", headDim);
        config.put("rope_theta", 1_000_000.0).put("partial_rotary_factor", 0.5);
        config.put("attention_bias", true).put("use_qk_norm", false).put("tie_word_embeddings", false);
        experts.describe(config, 1.0);
        return new Candidate(2L * vocab * hidden + layers * attention + experts.parameters(hidden, layers), config);
    }

    private static Candidate kimi(int hidden, int layers, int vocab, long wanted) {
        boolean small = hidden < 512;
        int nope = small ? 32 : 128;
        int rope = small ? 16 : 64;
        int rank = small ? 64 : 512;
        int heads = Math.max(2, hidden / nope);
        int queryRank = Math.max(32, hidden / 5 / 64 * 64);
        Experts experts = Experts.of(hidden, wanted, 0.286, 2.57);
        long attention = (long) hidden * queryRank + (long) queryRank * heads * (nope + rope)
                + (long) hidden * (rank + rope) + (long) rank * heads * 2 * nope + (long) heads * nope * hidden;
        ObjectNode config = common("DeepseekV3ForCausalLM", "kimi_k2", hidden, layers, vocab, CONTEXT);
        config.put("num_attention_heads", heads).put("num_key_value_heads", heads);
        config.put("q_lora_rank", queryRank).put("kv_lora_rank", rank).put("qk_nope_head_dim", nope);
        config.put("qk_rope_head_dim", rope).put("v_head_dim", nope);
        config.put("rope_theta", 50_000.0).put("attention_bias", false).put("tie_word_embeddings", false);
        config.putObject("rope_scaling").put("type", "yarn").put("factor", 32.0)
                .put("original_max_position_embeddings", 4096).put("beta_fast", 1.0).put("beta_slow", 1.0)
                .put("mscale", 1.0).put("mscale_all_dim", 1.0);
        experts.describe(config, 2.827);
        return new Candidate(2L * vocab * hidden + layers * attention + experts.parameters(hidden, layers), config);
    }

    /// With a draft layer, which is not counted: a token does not pass through it.
    private static Candidate glm5(int hidden, int layers, int vocab, long wanted) {
        boolean small = hidden < 512;
        int nope = small ? 24 : 192;
        int rope = small ? 16 : 64;
        int value = small ? 32 : 256;
        int rank = small ? 64 : 512;
        int heads = Math.max(2, hidden / (small ? 32 : 96));
        int queryRank = Math.max(32, hidden / 3 / 64 * 64);
        int indexHeads = small ? 4 : 32;
        int indexDim = small ? 32 : 128;
        Experts experts = Experts.of(hidden, wanted, 0.333, 2);
        long attention = (long) hidden * queryRank + (long) queryRank * heads * (nope + rope)
                + (long) hidden * (rank + rope) + (long) rank * heads * (nope + value) + (long) heads * value * hidden;
        long indexer = (long) queryRank * indexHeads * indexDim + (long) hidden * (indexDim + indexHeads);
        int indexers = layers < 3 ? layers : 3 + (layers - 3) / 4;
        ObjectNode config = common("GlmMoeDsaForCausalLM", "glm_moe_dsa", hidden, layers, vocab, CONTEXT);
        config.put("num_attention_heads", heads).put("num_key_value_heads", heads);
        config.put("q_lora_rank", queryRank).put("kv_lora_rank", rank).put("qk_nope_head_dim", nope);
        config.put("qk_rope_head_dim", rope).put("v_head_dim", value);
        config.putObject("rope_parameters").put("rope_type", "default").put("rope_theta", 8_000_000.0);
        config.put("attention_bias", false).put("tie_word_embeddings", false);
        config.put("index_topk", small ? 64 : 2048).put("index_n_heads", indexHeads).put("index_head_dim", indexDim);
        config.put("indexer_rope_interleave", true).put("index_topk_freq", 4).put("index_skip_topk_offset", 3);
        config.put("index_share_for_mtp_iteration", true).put("num_nextn_predict_layers", 1);
        experts.describe(config, 2.5);
        long parameters = 2L * vocab * hidden + layers * attention + indexers * indexer + experts.parameters(hidden, layers);
        return new Candidate(parameters, config);
    }

    static ObjectNode common(
            String architecture, String type, int hidden, int layers, int vocab, int context) {
        ObjectNode config = JsonNodeFactory.instance.objectNode();
        config.putArray("architectures").add(architecture);
        config.put("model_type", type).put("hidden_act", "silu").put("torch_dtype", "bfloat16");
        config.put("vocab_size", vocab).put("hidden_size", hidden).put("num_hidden_layers", layers);
        return config.put("rms_norm_eps", 1e-5).put("max_position_embeddings", context);
    }

    /// The greatest divisor of `n` that is at most `most`.
    private static int divisor(int n, int most) {
        int divisor = most;
        while (n % divisor != 0) {
            divisor--;
        }
        return divisor;
    }

    /// The first layer is dense, as published ones begin.
    private record Experts(int count, int perToken, int inner, int dense) {
        static Experts of(int hidden, long wanted, double innerShare, double denseShare) {
            int count = wanted < 50_000_000 ? 8 : wanted < 500_000_000 ? 16 : wanted < 8_000_000_000L ? 32 : 128;
            return new Experts(count, count < 32 ? 2 : count < 128 ? 4 : 8, of64(hidden * innerShare), of64(hidden * denseShare));
        }

        private static int of64(double width) {
            return Math.max(32, (int) Math.round(width / 64) * 64);
        }

        long parameters(int hidden, int layers) {
            long sparse = 3L * inner * hidden * (count + 1) + (long) count * hidden;
            return 3L * dense * hidden + (layers - 1) * sparse;
        }

        void describe(ObjectNode config, double factor) {
            config.put("intermediate_size", dense).put("moe_intermediate_size", inner);
            config.put("n_routed_experts", count).put("num_experts_per_tok", perToken).put("n_shared_experts", 1);
            config.put("n_group", 1).put("topk_group", 1).put("first_k_dense_replace", 1);
            config.put("norm_topk_prob", true).put("routed_scaling_factor", factor);
            config.put("scoring_func", "sigmoid").put("topk_method", "noaux_tc");
        }
    }
}

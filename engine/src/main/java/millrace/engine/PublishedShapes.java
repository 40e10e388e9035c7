package millrace.engine;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;

/// The layers of published models, of which a random model has a few: kernels and caches meet the sizes that they will
/// meet in service, in memory that one machine has.
///
/// The vocabulary is 32,000, since a large one would outweigh few layers. `kimi-k2` has 48 of its 384 experts, `glm-5.2` 16 of
/// its 256: a token reads 8 of them either way. In `glm-5.2` every fourth layer has an indexer, from the first on, since 21 of
/// the 78 have; and a draft layer stands behind the last.
final class PublishedShapes {
    static final List<String> NAMES = List.of("llama-8b", "glm-4.5-air", "kimi-k2", "glm-5.2");

    private static final int VOCAB = 32_000;
    private static final int CONTEXT = 131_072;

    private PublishedShapes() {}

    /// What config.json says, but for the ids that end a turn.
    ///
    /// @throws IllegalArgumentException for another name, or fewer than 2 or more than 100 layers
    static ObjectNode config(String name, int layers) {
        if (layers < 2 || layers > 100) {
            throw new IllegalArgumentException("layers of a random model: expected from 2l to 100l, got " + layers + "l");
        }
        return switch (name) {
            case "llama-8b" -> RandomShapes.llamaConfig(4096, layers, 32, 8, 14_336, VOCAB, CONTEXT);
            case "glm-4.5-air" -> air(layers);
            case "kimi-k2" -> kimi(layers);
            case "glm-5.2" -> glm5(layers);
            default -> throw new IllegalArgumentException("geometry of a random model: expected one of "
                    + String.join(", ", NAMES) + ", got \"" + name + "\"");
        };
    }

    private static ObjectNode air(int layers) {
        ObjectNode config = RandomShapes.common("Glm4MoeForCausalLM", "glm4_moe", 4096, layers, VOCAB, CONTEXT);
        config.put("num_attention_heads", 96).put("num_key_value_heads", 8).put("head_dim", 128);
        config.put("rope_theta", 1_000_000.0).put("partial_rotary_factor", 0.5);
        config.put("attention_bias", true).put("use_qk_norm", false).put("tie_word_embeddings", false);
        config.put("intermediate_size", 10_944).put("moe_intermediate_size", 1_408).put("n_routed_experts", 128);
        return experts(config, 1.0);
    }

    private static ObjectNode kimi(int layers) {
        ObjectNode config = RandomShapes.common("DeepseekV3ForCausalLM", "kimi_k2", 7168, layers, VOCAB, CONTEXT);
        config.put("num_attention_heads", 64).put("num_key_value_heads", 64).put("q_lora_rank", 1_536);
        config.put("kv_lora_rank", 512).put("qk_nope_head_dim", 128).put("qk_rope_head_dim", 64).put("v_head_dim", 128);
        config.put("rope_theta", 50_000.0).put("attention_bias", false).put("tie_word_embeddings", false);
        config.putObject("rope_scaling").put("type", "yarn").put("factor", 32.0)
                .put("original_max_position_embeddings", 4096).put("beta_fast", 1.0).put("beta_slow", 1.0)
                .put("mscale", 1.0).put("mscale_all_dim", 1.0);
        config.put("intermediate_size", 18_432).put("moe_intermediate_size", 2_048).put("n_routed_experts", 48);
        return experts(config, 2.827);
    }

    private static ObjectNode glm5(int layers) {
        ObjectNode config = RandomShapes.common("GlmMoeDsaForCausalLM", "glm_moe_dsa", 6144, layers, VOCAB, CONTEXT);
        config.put("num_attention_heads", 64).put("num_key_value_heads", 64).put("q_lora_rank", 2_048);
        config.put("kv_lora_rank", 512).put("qk_nope_head_dim", 192).put("qk_rope_head_dim", 64).put("v_head_dim", 256);
        config.put("attention_bias", false).put("tie_word_embeddings", false);
        config.putObject("rope_parameters").put("rope_type", "default").put("rope_theta", 8_000_000.0);
        config.put("index_topk", 2_048).put("index_n_heads", 32).put("index_head_dim", 128);
        config.put("indexer_rope_interleave", true).put("index_topk_freq", 4).put("index_skip_topk_offset", 1);
        config.put("index_share_for_mtp_iteration", true).put("num_nextn_predict_layers", 1);
        config.put("intermediate_size", 12_288).put("moe_intermediate_size", 2_048).put("n_routed_experts", 16);
        return experts(config, 2.5);
    }

    private static ObjectNode experts(ObjectNode config, double factor) {
        config.put("num_experts_per_tok", 8).put("n_shared_experts", 1).put("first_k_dense_replace", 1);
        config.put("n_group", 1).put("topk_group", 1).put("norm_topk_prob", true).put("routed_scaling_factor", factor);
        return config.put("scoring_func", "sigmoid").put("topk_method", "noaux_tc");
    }
}

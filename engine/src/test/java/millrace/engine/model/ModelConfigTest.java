package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.Consumer;
import millrace.engine.TinyModel;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Old and new spellings of config.json, and defaults.
final class ModelConfigTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    static ModelConfig read(ObjectNode config) {
        return parse(config.toString(), null);
    }

    static ModelConfig parse(String config, @Nullable String generation) {
        return ConfigReader.read(
                config.getBytes(StandardCharsets.UTF_8),
                generation == null ? null : generation.getBytes(StandardCharsets.UTF_8));
    }

    static ModelConfig read(String modelType, Consumer<ObjectNode> change) {
        ObjectNode config = TinyModel.of(modelType).config();
        change.accept(config);
        return read(config);
    }

    static ObjectNode object(String json) {
        try {
            return (ObjectNode) JSON.readTree(json);
        } catch (JsonProcessingException e) {
            throw new IllegalArgumentException(json, e);
        }
    }

    // ------------------------------------------------------------------------------------------------- families

    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "glm4_moe_lite", "kimi_k2", "glm_moe_dsa", "deepseek_v32", "glm4", "llama", "qwen2",
        "qwen3"})
    void withoutArchitecturesTheModelTypeShouldTell(String modelType) {
        assertThat(read(modelType, c -> c.remove("architectures"))).isEqualTo(read(modelType, c -> {}));
    }

    @Test
    void denseModelsShouldHaveAContextByDefault() {
        Consumer<ObjectNode> without = c -> c.remove("max_position_embeddings");
        assertThat(read("llama", without).maxPositionEmbeddings()).isEqualTo(2048);
        assertThat(read("qwen2", without).maxPositionEmbeddings()).isEqualTo(32_768);
        assertThat(read("qwen3", without).maxPositionEmbeddings()).isEqualTo(32_768);
        assertThat(read("glm4", without).maxPositionEmbeddings()).isEqualTo(131_072);
    }

    @Test
    void glm4MoeShouldBeRead() {
        ModelConfig config = read("glm4_moe", c -> {});
        assertThat(config.family()).isEqualTo(ModelFamily.GLM4_MOE);
        assertThat(config.headDim()).isEqualTo(32);
        assertThat(config.attentionBias()).isTrue();
        assertThat(config.useQkNorm()).isTrue();
        assertThat(config.rope()).isEqualTo(new RopeConfig(10_000, 16, false, new RopeScaling.None()));
        assertThat(config.mla()).isNull();
        assertThat(config.moe())
                .isEqualTo(new MoeConfig(16, 4, 1, 96, 4, 2, true, 2.5f, List.of(false, true, true, true)));
        assertThat(config.isSparse(0)).isFalse();
        assertThat(config.isSparse(1)).isTrue();
        assertThat(config.tensorPrefix()).isEqualTo("model.");
        assertThat(config.lmHeadName()).isEqualTo("lm_head.weight");
    }

    @Test
    void kimiK2ShouldBeRead() {
        ModelConfig config = read("kimi_k2", c -> c.put("head_dim", 16));
        assertThat(config.family()).isEqualTo(ModelFamily.DEEPSEEK_V3);
        assertThat(config.modelType()).isEqualTo("kimi_k2");
        assertThat(config.mla()).isEqualTo(new MlaConfig(64, 64, 32, 16, 32));
        assertThat(config.headDim()).as("head_dim of the file is not the score's").isEqualTo(48);
        assertThat(config.numKeyValueHeads()).isEqualTo(4);
        assertThat(config.rope())
                .isEqualTo(new RopeConfig(
                        10_000, 16, true, new RopeScaling.Yarn(4, 64, 32, 1, 1.0, 1.0, null, true)));
    }

    @Test
    void queryLatentMayBeNull() {
        assertThat(read("kimi_k2", c -> c.putNull("q_lora_rank")).mla().qLoraRank()).isZero();
        assertThat(read("kimi_k2", c -> c.remove("q_lora_rank")).mla().qLoraRank()).isZero();
    }

    @Test
    void glm4MoeLiteShouldHaveValuesWiderThanKeys() {
        ModelConfig config = read("glm4_moe_lite", c -> {});
        assertThat(config.family()).isEqualTo(ModelFamily.GLM4_MOE_LITE);
        assertThat(config.mla()).isEqualTo(new MlaConfig(64, 64, 24, 16, 48));
        assertThat(config.rope()).isEqualTo(new RopeConfig(10_000, 16, true, new RopeScaling.None()));
    }

    @Test
    void wrapperShouldBeReadFromItsTextConfig() {
        ObjectNode text = TinyModel.of("kimi_k2").config();
        text.remove("eos_token_id");
        ObjectNode outer = JSON.createObjectNode().put("model_type", "kimi_k25").put("eos_token_id", 5);
        outer.putArray("architectures").add("KimiK25ForConditionalGeneration");
        outer.set("text_config", text);
        ModelConfig config = read(outer);
        assertThat(config.family()).isEqualTo(ModelFamily.DEEPSEEK_V3);
        assertThat(config.tensorPrefix()).isEqualTo("language_model.model.");
        assertThat(config.lmHeadName()).isEqualTo("language_model.lm_head.weight");
        assertThat(config.eosTokenIds()).containsExactly(5);
        text.put("model_type", "deepseek_v3");
        assertThat(read(outer).modelType()).isEqualTo("deepseek_v3");
    }

    @Test
    void denseFamiliesShouldBeRead() {
        assertThat(read("glm4", c -> {}).rope()).isEqualTo(new RopeConfig(10_000, 16, true, new RopeScaling.None()));
        ModelConfig llama = read("llama", c -> {});
        assertThat(llama.rope())
                .isEqualTo(new RopeConfig(500_000, 32, false, new RopeScaling.Llama3(8, 1, 4, 64)));
        assertThat(llama.attentionBias()).isFalse();
        assertThat(llama.isSparse(0)).isFalse();
        ModelConfig qwen2 = read("qwen2", c -> c.remove("attention_bias"));
        assertThat(qwen2.attentionBias()).as("always, without a key").isTrue();
        assertThat(qwen2.tieWordEmbeddings()).isTrue();
        ModelConfig qwen3 = read("qwen3", c -> c.remove("use_qk_norm"));
        assertThat(qwen3.useQkNorm()).as("always, without a key").isTrue();
        assertThat(qwen3.headDim() * qwen3.numAttentionHeads()).isNotEqualTo(qwen3.hiddenSize());
        assertThat(qwen3.rmsNormEps()).isEqualTo(1e-6f);
    }

    @Test
    void defaultsShouldBeThoseOfTheReference() {
        ModelConfig config = read("llama", c -> {
            c.remove(List.of("head_dim", "num_key_value_heads", "tie_word_embeddings", "rope_theta", "rope_scaling"));
        });
        assertThat(config.headDim()).isEqualTo(32);
        assertThat(config.numKeyValueHeads()).isEqualTo(4);
        assertThat(config.tieWordEmbeddings()).isFalse();
        assertThat(config.rope()).isEqualTo(new RopeConfig(10_000, 32, false, new RopeScaling.None()));
        ModelConfig glm = read("glm4_moe", c -> c.remove(List.of("use_qk_norm", "attention_bias", "scoring_func")));
        assertThat(glm.useQkNorm()).isFalse();
        assertThat(glm.attentionBias()).isFalse();
    }

    // ------------------------------------------------------------------------------------------- rope, spellings

    @Test
    void newStyleOfRopeShouldWinOverTheOld() {
        ModelConfig config = read("kimi_k2", c -> c.set(
                "rope_parameters",
                object("""
                        {"rope_type":"yarn","rope_theta":50000,"factor":64,"original_max_position_embeddings":32,
                         "attention_factor":1.5,"truncate":false}""")));
        assertThat(config.rope())
                .isEqualTo(new RopeConfig(
                        50_000, 16, true, new RopeScaling.Yarn(64, 32, 32, 1, null, null, 1.5, false)));
        ModelConfig glm = read("glm4_moe", c -> {
            c.remove(List.of("rope_theta", "partial_rotary_factor"));
            c.set("rope_parameters", object("{\"rope_theta\":1e6,\"partial_rotary_factor\":0.25}"));
        });
        assertThat(glm.rope()).isEqualTo(new RopeConfig(1e6, 8, false, new RopeScaling.None()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"null", "{\"type\":\"default\"}", "{\"rope_type\":\"default\"}", "{}"})
    void ropeWithoutScalingShouldHaveManySpellings(String scaling) {
        ObjectNode config = object("{\"rope_scaling\":" + scaling + "}");
        assertThat(read("qwen3", c -> c.setAll(config)).rope().scaling()).isEqualTo(new RopeScaling.None());
    }

    @Test
    void halfSplitLatentRopeShouldBeReadFromItsFlag() {
        assertThat(read("glm4_moe_lite", c -> c.put("rope_interleave", false)).rope().interleaved()).isFalse();
    }

    @Test
    void aliasesShouldBeUnderstood() {
        ModelConfig plain = read("glm4_moe", c -> {});
        ModelConfig aliased = read("glm4_moe", c -> {
            rename(c, "num_experts_per_tok", "num_experts_per_token");
            rename(c, "n_routed_experts", "num_experts");
            rename(c, "n_shared_experts", "num_shared_experts");
            rename(c, "norm_topk_prob", "moe_renormalize");
            rename(c, "n_group", "num_expert_group");
            rename(c, "scoring_func", "moe_router_activation_func");
        });
        assertThat(aliased).isEqualTo(plain);
    }

    private static void rename(ObjectNode config, String from, String to) {
        config.set(to, config.remove(from));
    }

    @Test
    void sparseLayersShouldFollowListOrFormula() {
        assertThat(read("glm4_moe", c -> c.put("moe_layer_freq", 2)).moe().sparseLayers())
                .containsExactly(false, false, true, false);
        ModelConfig listed = read("glm4_moe", c -> c.set(
                "mlp_layer_types", object("{\"x\":[\"sparse\",\"dense\",\"sparse\",\"dense\",\"sparse\"]}").get("x")));
        assertThat(listed.moe().sparseLayers()).containsExactly(true, false, true, false);
    }

    @Test
    void stopTokensShouldBeTheUnion() {
        ObjectNode config = TinyModel.of("qwen3").config().put("eos_token_id", 7);
        assertThat(parse(config.toString(), "{\"eos_token_id\":[9,7]}").eosTokenIds()).containsExactly(7, 9);
        assertThat(parse(config.toString(), "{}").eosTokenIds()).containsExactly(7);
        config.remove("eos_token_id");
        assertThat(parse(config.toString(), null).eosTokenIds()).isEmpty();
    }
}

package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import millrace.engine.InvalidModelException;
import millrace.engine.SafetensorsWriter.Tensor;
import millrace.engine.TinyModel;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class TensorExpectationTest {
    @TempDir
    Path dir;

    private static long check(Path model) {
        try (ModelFiles files = ModelFiles.open(model)) {
            return TensorExpectation.check(ModelConfig.read(files), files);
        }
    }

    /// Checks weights that were written for another config than the one that is read.
    private static long check(Path model, ModelConfig config) {
        try (ModelFiles files = ModelFiles.open(model)) {
            return TensorExpectation.check(config, files);
        }
    }

    private static ModelConfig config(TinyModel model) {
        return ModelConfigTest.read(model.config());
    }

    private static void refused(Path model, ModelConfig config, String code, String message) {
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> check(model, config));
        assertThat(e).as("refusal: " + message).isNotNull();
        assertThat(e.code()).isEqualTo(code);
        assertThat(e).hasMessage(message);
    }

    private static Tensor tensor(String name) {
        return new Tensor(name, "F32", new long[] {1}, new byte[4]);
    }

    // --------------------------------------------------------------------------------------------------- shapes

    @Test
    void latentAttentionShouldHaveTheShapesOfTheReference() {
        // GLM-4.7-Flash: values wider than the un-rotated keys.
        TinyModel flash = TinyModel.of("glm4_moe_lite")
                .with("hidden_size", 2048)
                .with("num_attention_heads", 20)
                .with("q_lora_rank", 768)
                .with("kv_lora_rank", 512)
                .with("qk_nope_head_dim", 192)
                .with("qk_rope_head_dim", 64)
                .with("v_head_dim", 256);
        Map<String, TensorExpectation> all = byName(config(flash));
        String p = "model.layers.1.self_attn.";
        assertThat(all.get(p + "q_a_proj.weight").shape()).containsExactly(768L, 2048L);
        assertThat(all.get(p + "q_b_proj.weight").shape()).containsExactly(5120L, 768L);
        assertThat(all.get(p + "kv_a_proj_with_mqa.weight").shape()).containsExactly(576L, 2048L);
        assertThat(all.get(p + "kv_b_proj.weight").shape()).containsExactly(8960L, 512L);
        assertThat(all.get(p + "o_proj.weight").shape()).containsExactly(2048L, 5120L);
    }

    @Test
    void fusedProjectionAndFourNormsShouldBeThoseOfGlm4() {
        Map<String, TensorExpectation> all = byName(config(TinyModel.of("glm4")));
        assertThat(all.get("model.layers.0.mlp.gate_up_proj.weight").shape()).containsExactly(640L, 128L);
        assertThat(all)
                .containsKeys(
                        "model.layers.2.post_self_attn_layernorm.weight", "model.layers.2.post_mlp_layernorm.weight")
                .doesNotContainKey("model.layers.0.mlp.gate_proj.weight");
    }

    private static Map<String, TensorExpectation> byName(ModelConfig config) {
        return TensorExpectation.of(config).stream()
                .collect(Collectors.toMap(TensorExpectation::name, Function.identity()));
    }

    // -------------------------------------------------------------------------------------------------- skipped

    @Test
    void knownTensorsThatAreNotComputedWithShouldBeSkipped() throws IOException {
        long plain = TensorExpectation.of(config(TinyModel.of("qwen2"))).stream()
                .mapToLong(t -> t.shape().stream().reduce(1L, Math::multiplyExact))
                .sum();
        TinyModel.of("qwen2")
                .withTensor(tensor("lm_head.weight"))
                .withTensor(tensor("model.layers.0.self_attn.rotary_emb.inv_freq"))
                .write(dir);
        assertThat(check(dir)).isEqualTo(plain);
    }

    @Test
    void wrapperShouldSkipItsVisionTower() throws IOException {
        TinyModel.of("kimi_k2").wrapped().withTensor(tensor("mm_projector.pre_norm.bias")).write(dir);
        assertThat(check(dir)).isPositive();
    }

    // ------------------------------------------------------------------------------------------------- refusals

    @ParameterizedTest
    @ValueSource(strings = {"model.layers.0.self_attn.q_proj.bias", "vision_tower.x", "model.layers.3.mlp.x", "other"})
    void unexplainedTensorShouldBeRefused(String name) throws IOException {
        TinyModel llama = TinyModel.of("llama").withTensor(tensor(name));
        llama.write(dir);
        refused(
                dir,
                config(llama),
                "MODEL_TENSOR_UNEXPECTED",
                "weights: expected only tensors of LlamaForCausalLM, got also \"" + name
                        + "\"; check that config.json belongs to these weights");
    }

    @Test
    void indexerInALayerThatSharesShouldBeRefused() throws IOException {
        // Written with an indexer in every layer.
        TinyModel.of("glm_moe_dsa").withIndexersEverywhere().write(dir);
        refused(
                dir,
                config(TinyModel.of("glm_moe_dsa")),
                "MODEL_TENSOR_UNEXPECTED",
                "weights: expected only tensors of GlmMoeDsaForCausalLM, got also"
                        + " \"model.layers.3.self_attn.indexer.wq_b.weight\"; check that config.json belongs to these"
                        + " weights");
    }

    @Test
    void layerWithoutItsIndexerShouldBeRefused() throws IOException {
        TinyModel.of("glm_moe_dsa").write(dir);
        refused(
                dir,
                config(TinyModel.of("glm_moe_dsa").withIndexersEverywhere()),
                "MODEL_TENSOR_MISSING",
                "weights: expected tensor model.layers.3.self_attn.indexer.wq_b.weight of GlmMoeDsaForCausalLM,"
                        + " got weights without it; complete the checkpoint");
    }

    @Test
    void untiedHeadShouldBeRequired() throws IOException {
        TinyModel.of("qwen2").write(dir);
        refused(
                dir,
                config(TinyModel.of("qwen2").with("tie_word_embeddings", false)),
                "MODEL_TENSOR_MISSING",
                "weights: expected tensor lm_head.weight of Qwen2ForCausalLM, got weights without it;"
                        + " complete the checkpoint");
    }

    @Test
    void missingBiasShouldBeRefused() throws IOException {
        TinyModel.of("llama").write(dir);
        refused(
                dir,
                config(TinyModel.of("qwen2")),
                "MODEL_TENSOR_MISSING",
                "weights: expected tensor model.layers.0.self_attn.q_proj.bias of Qwen2ForCausalLM,"
                        + " got weights without it; complete the checkpoint");
    }

    @Test
    void weightsOfOtherSizesShouldBeRefused() throws IOException {
        TinyModel.of("qwen3").write(dir);
        refused(
                dir,
                config(TinyModel.of("qwen3").with("intermediate_size", 321)),
                "MODEL_TENSOR_SHAPE",
                "weights: model.layers.0.mlp.gate_proj.weight: expected shape [321, 128] by config.json,"
                        + " got [320, 128]; check that config.json belongs to these weights");
    }

    @Test
    void configThatAsksForMoreTensorsThanMemoryHoldsShouldBeRefused() throws IOException {
        TinyModel.of("kimi_k2").write(dir);
        ModelConfig endless = config(TinyModel.of("kimi_k2")
                .with("n_routed_experts", 65536)
                .with("num_hidden_layers", 1024));
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> check(dir, endless));
        assertThat(e.code()).isEqualTo("MODEL_TENSOR_SHAPE");
    }

    @Test
    void transposedWeightsShouldBeRefused() throws IOException {
        // Heads times head size differs from the hidden size, so that a transposed o_proj cannot pass.
        TinyModel.of("qwen3").write(dir);
        refused(
                dir,
                config(TinyModel.of("qwen3").with("num_attention_heads", 4)),
                "MODEL_TENSOR_SHAPE",
                "weights: model.layers.0.self_attn.q_proj.weight: expected shape [128, 128] by config.json,"
                        + " got [256, 128]; check that config.json belongs to these weights");
    }

    @Test
    void typesThatAreNotComputedWithShouldBeRefused() throws IOException {
        TinyModel quantised = TinyModel.of("qwen2");
        quantised.withTensor(new Tensor("lm_head.weight", "F8_E4M3", new long[] {2048, 128}, new byte[2048 * 128]))
                .write(dir);
        assertThat(check(dir, config(quantised))).as("not computed with").isPositive();
        refused(
                dir,
                config(TinyModel.of("qwen2").with("tie_word_embeddings", false)),
                "MODEL_TENSOR_DTYPE",
                "weights: lm_head.weight: expected BF16, F16 or F32, got F8_E4M3;"
                        + " use a checkpoint whose config.json tells how its weights are quantised");
    }

    @Test
    void checkpointWithFewerLayersThanTheWeightsShouldBeRefusedInDenseFamilies() throws IOException {
        TinyModel.of("llama").write(dir);
        refused(
                dir,
                config(TinyModel.of("llama").with("num_hidden_layers", 2)),
                "MODEL_TENSOR_UNEXPECTED",
                "weights: expected only tensors of LlamaForCausalLM, got also"
                        + " \"model.layers.2.input_layernorm.weight\";"
                        + " check that config.json belongs to these weights");
    }
}

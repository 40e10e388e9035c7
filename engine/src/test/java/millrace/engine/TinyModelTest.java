package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.StreamSupport;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.TensorExpectation;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.StoredTensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class TinyModelTest {
    @TempDir
    Path dir;

    @Test
    void valuesShouldFollowTheRecipe() {
        JsonNode check = TinyModel.golden("golden_tiny").get("recipe_check");
        assertThat(first4("model.embed_tokens.weight", 2048, 128)).containsExactly(floats(check, 0));
        assertThat(first4("model.norm.weight", 128)).containsExactly(floats(check, 1));
        assertThat(first4("model.layers.1.mlp.gate.e_score_correction_bias", 16)).containsExactly(floats(check, 2));
        assertThat(first4("model.layers.0.self_attn.o_proj.weight", 128, 256)).containsExactly(floats(check, 3));
    }

    @Test
    void tokensShouldFollowTheRecipe() {
        JsonNode tokens = TinyModel.golden("golden_tiny").get("tokens_first16");
        assertThat(TinyModel.tokens(16))
                .containsExactly(StreamSupport.stream(tokens.spliterator(), false)
                        .mapToInt(JsonNode::intValue)
                        .toArray());
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "kimi_k2", "glm_moe_dsa", "glm4", "llama", "qwen3", "kimi_k2:no_q_lora"})
    void checkpointShouldHaveTheTensorsOfTheReference(String name) throws IOException {
        JsonNode golden = TinyModel.golden("golden_tiny").get(name);
        TinyModel model = TinyModel.of(name.split(":")[0]);
        (name.endsWith("no_q_lora") ? model.withoutQueryLatent() : model).write(dir);
        try (ModelFiles files = ModelFiles.open(dir)) {
            long parameters = files.tensorNames().stream()
                    .mapToLong(tensor -> files.tensor(tensor).elements())
                    .sum();
            assertThat(files.tensorNames()).hasSize(golden.get("tensors").intValue());
            assertThat(parameters).isEqualTo(golden.get("params").longValue());
            TensorExpectation.check(ModelConfig.read(files), files);
        }
    }

    @Test
    void everyVariantShouldLoadWithTheSameNumberOfParameters() throws IOException {
        long plain = check(TinyModel.of("kimi_k2"), "plain");
        assertThat(check(TinyModel.of("kimi_k2").wrapped(), "wrapped")).isEqualTo(plain);
        assertThat(check(TinyModel.of("kimi_k2").sharded().withOwnMtpEmbedding(), "sharded")).isEqualTo(plain);
        assertThat(check(TinyModel.of("kimi_k2").dtype("F32"), "f32")).isEqualTo(plain);
        assertThat(check(TinyModel.of("kimi_k2").dtype("F16").withoutMtp(), "f16")).isEqualTo(plain);
        assertThat(check(TinyModel.of("kimi_k2").with("n_group", 1).with("topk_group", 1), "n_group"))
                .isEqualTo(plain);
        assertThat(check(TinyModel.of("glm4_moe_lite").withTokenizer(), "lite")).isPositive();
        assertThat(check(TinyModel.of("qwen2"), "qwen2")).isEqualTo(779_904);
    }

    @Test
    void variantsOfSparseAttentionShouldLoadWithTheirDraftLayers() throws IOException {
        assertThat(check(TinyModel.of("glm_moe_dsa"), "listed")).as("all but the draft layer").isLessThan(4_093_856);
        long whole = 4_093_856;
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa"), "whole")).isEqualTo(whole);
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").withIndexersByFormula(), "formula")).isEqualTo(whole);
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").withIndexersByPattern(), "pattern")).isEqualTo(whole);
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").with("indexer_rope_interleave", false), "half-split"))
                .isEqualTo(whole);
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").with("index_topk", 64), "dense")).isEqualTo(whole);
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").sharded(), "sharded")).isEqualTo(whole);
        // Three more indexers; an embedding and an output projection more.
        long indexer = 512 * 64 + 32 * 128 + 32 + 32 + 16 * 128;
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").withIndexersEverywhere(), "everywhere"))
                .isEqualTo(whole + 3 * indexer);
        assertThat(checkWhole(TinyModel.of("deepseek_v32"), "v32")).isEqualTo(whole + 3 * indexer);
        assertThat(checkWhole(TinyModel.of("glm_moe_dsa").withOwnMtpEmbedding(), "own"))
                .isEqualTo(whole + 2 * 2048 * 128);
    }

    @Test
    void correctionBiasShouldBeStoredAsF32() throws IOException {
        String name = "model.layers.1.mlp.gate.e_score_correction_bias";
        TinyModel.of("glm4_moe").write(dir);
        try (ModelFiles files = ModelFiles.open(dir)) {
            StoredTensor bias = files.tensor(name);
            float third = bias.data()
                    .get(ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN), 2 * Float.BYTES);
            assertThat(third).isEqualTo(TinyModel.values(name, new long[] {16})[2]).isEqualTo(6.97965908f);
        }
    }

    private long check(TinyModel model, String name) throws IOException {
        Path target = Files.createDirectory(dir.resolve(name));
        model.write(target);
        try (ModelFiles files = ModelFiles.open(target)) {
            return TensorExpectation.check(ModelConfig.read(files), files);
        }
    }

    private long checkWhole(TinyModel model, String name) throws IOException {
        Path target = Files.createDirectory(dir.resolve(name));
        model.write(target);
        try (ModelFiles files = ModelFiles.open(target)) {
            return TensorExpectation.check(ModelConfig.read(files).withDraft(files), files);
        }
    }

    private static float[] first4(String name, long... shape) {
        return Arrays.copyOf(TinyModel.values(name, shape), 4);
    }

    private static float[] floats(JsonNode check, int index) {
        JsonNode values = StreamSupport.stream(check.spliterator(), false).toList().get(index);
        float[] result = new float[values.size()];
        for (int i = 0; i < result.length; i++) {
            result[i] = (float) values.get(i).doubleValue();
        }
        return result;
    }
}

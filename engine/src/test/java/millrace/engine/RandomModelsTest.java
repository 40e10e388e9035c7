package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import millrace.engine.DeveloperModels.RandomSpec;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class RandomModelsTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"llama, LlamaForCausalLM", "glm4_moe, Glm4MoeForCausalLM", "kimi_k2, DeepseekV3ForCausalLM",
        "glm_moe_dsa, GlmMoeDsaForCausalLM"})
    void modelOfEveryArchitectureShouldLoadAndAnswer(String architecture, String name) throws IOException {
        long parameters = DeveloperModels.writeRandom(
                dir.resolve("m"), 7, RandomSpec.parse("random:" + architecture + ":400k"));
        EngineConfig config = EngineConfig.of(dir.resolve("m")).withKvBytes(1 << 20).withMaxContext(256);
        try (Engine engine = Engine.open(config)) {
            assertThat(engine.card().architecture()).isEqualTo(name);
            assertThat(engine.card().parameters()).isEqualTo(parameters);
            var request = GenerationRequest.greedy("r", new PromptInput.TokenIds(List.of(1, 2, 3, 4)), 6);
            var ended = new CompletableFuture<GenerationResult>();
            engine.submit(engine.prepare(request), ended::complete);
            GenerationResult result = ended.join();
            assertThat(result.reason()).as(result.errorMessage()).isIn(FinishReason.LENGTH, FinishReason.STOP);
            assertThat(result.tokenIds()).isNotEmpty();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama:1b", "glm4_moe:1b", "kimi_k2:1b", "llama:300m", "glm4_moe:12b", "kimi_k2:1000b", "glm_moe_dsa:1b",
        "glm_moe_dsa:40b", "glm_moe_dsa:3m"})
    void sizesShouldBeNearWhatWasAskedFor(String name) {
        RandomSpec spec = RandomSpec.parse("random:" + name);
        var config = millrace.engine.model.ModelConfig.of(
                RandomShapes.config(spec.architecture(), spec.parameters()).toString().getBytes());
        assertThat((double) ModelInspection.parameters(config) / spec.parameters()).isCloseTo(1, within(0.1));
    }

    @Test
    void oneBillionShouldHaveTheSizesOfTheComparisons() {
        var shape = DeveloperModels.LlamaShape.oneBillion();
        var config = RandomShapes.config("llama", 1_000_000_000);
        assertThat(config.get("hidden_size").intValue()).isEqualTo(shape.hiddenSize());
        assertThat(config.get("num_hidden_layers").intValue()).isEqualTo(shape.numHiddenLayers());
        assertThat(config.get("num_attention_heads").intValue()).isEqualTo(shape.numAttentionHeads());
        assertThat(config.get("num_key_value_heads").intValue()).isEqualTo(shape.numKeyValueHeads());
        assertThat(config.get("intermediate_size").intValue()).isEqualTo(shape.intermediateSize());
        assertThat(config.get("vocab_size").intValue()).isEqualTo(shape.vocabSize());
    }

    @Test
    void weightsShouldBeNormallyDistributed() throws IOException {
        DeveloperModels.writeRandom(dir.resolve("m"), 7, RandomSpec.parse("random:llama:1m"));
        try (ModelFiles files = ModelFiles.open(dir.resolve("m"))) {
            var tensor = files.tensor("model.layers.0.mlp.down_proj.weight");
            MemorySegment data = tensor.data();
            long n = tensor.elements();
            double width = tensor.shape()[1];
            double sum = 0;
            double squares = 0;
            double fourth = 0;
            for (long i = 0; i < n; i++) {
                int half = data.get(ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN), 2 * i);
                double value = Float.intBitsToFloat(half << 16) * Math.sqrt(width);
                sum += value;
                squares += value * value;
                fourth += value * value * value * value;
            }
            assertThat(sum / n).isCloseTo(0, within(0.02));
            assertThat(squares / n).isCloseTo(1, within(0.02));
            assertThat(fourth / n).isCloseTo(3, within(0.15));
        }
    }

    @Test
    void nameThatIsNoneShouldBeRefused() {
        String message = "random model: expected random:ARCH:PARAMS, for example random:llama:1b or random:kimi_k2:300m, got ";
        for (String name : List.of("random:llama", "random:llama:1", "random:llama:x", "random:llama:1b:2", "llama:1b")) {
            assertThatThrownBy(() -> RandomSpec.parse(name)).hasMessage(message + '"' + name + '"');
        }
        assertThatThrownBy(() -> RandomSpec.parse("random:gpt:1b"))
                .hasMessage("architecture of a random model: expected one of llama, glm4_moe, kimi_k2, glm_moe_dsa, got \"gpt\"");
        assertThatThrownBy(() -> RandomSpec.parse("random:llama:9k"))
                .hasMessage("parameters of a random model: expected from 100k to 1000b, got 9000");
        assertThat(RandomSpec.isRandom("random:llama:1b")).isTrue();
        assertThat(RandomSpec.isRandom("/models/random:x")).isFalse();
    }

    @Test
    void glm5ShouldComeWithADraftLayer() throws IOException {
        long parameters = DeveloperModels.writeRandom(dir.resolve("m"), 7, RandomSpec.parse("random:glm_moe_dsa:400k"));
        ModelInspection inspection = ModelInspection.of(dir.resolve("m"), null);
        assertThat(inspection.parameters()).isEqualTo(parameters);
        assertThat(inspection.drafting().layer()).as(inspection.drafting().reason()).isTrue();
        assertThat(inspection.tensorsSkipped()).isZero();
    }

    @Test
    void geometryOfGlm52ShouldBeThePublishedOne() {
        var config = millrace.engine.model.ModelConfig.of(PublishedShapes.config("glm-5.2", 8).toString().getBytes());
        assertThat(config.mla()).isEqualTo(new millrace.engine.model.MlaConfig(2048, 512, 192, 64, 256));
        assertThat(config.indexer()).isEqualTo(new millrace.engine.model.IndexerConfig(
                2048, 32, 128, true, List.of(true, false, false, false, true, false, false, false), true));
        assertThat(config.hiddenSize()).isEqualTo(6144);
        assertThat(config.numAttentionHeads()).isEqualTo(64);
        assertThat(config.moe().moeIntermediateSize()).isEqualTo(2048);
        assertThat(config.moe().numExpertsPerTok()).isEqualTo(8);
    }

    @Test
    void geometriesShouldBeThoseOfPublishedLayers() {
        for (String name : DeveloperModels.geometries()) {
            RandomSpec spec = RandomSpec.parse("random:" + name + ":3l");
            assertThat(spec.layers()).isEqualTo(3);
            assertThat(spec.architecture()).isEqualTo(name);
        }
        assertThatThrownBy(() -> RandomSpec.parse("random:gpt:3l"))
                .hasMessage("geometry of a random model: expected one of llama-8b, glm-4.5-air, kimi-k2, glm-5.2, got \"gpt\"");
        assertThatThrownBy(() -> RandomSpec.parse("random:kimi-k2:1l"))
                .hasMessage("layers of a random model: expected from 2l to 100l, got 1l");
    }
}

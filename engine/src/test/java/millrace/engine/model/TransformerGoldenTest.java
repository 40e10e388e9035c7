package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.IntStream;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Against logits that were computed elsewhere in float64. Every known mistake of routing, rotation, norms and scales
/// moves them by more than the tolerance.
final class TransformerGoldenTest {
    static final float TOLERANCE = 3e-5f;

    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "kimi_k2", "kimi_k2:no_q_lora", "glm_moe_dsa", "glm4", "llama", "qwen3"})
    void logitsShouldBeThoseOfTheReference(String name) throws IOException {
        TinyModel model = TinyModel.of(name.split(":")[0]);
        check(name, name.endsWith("no_q_lora") ? model.withoutQueryLatent() : model, "auto");
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "kimi_k2", "glm_moe_dsa"})
    void logitsOfTheSpecificationShouldBeThoseOfTheReference(String name) throws IOException {
        check(name, TinyModel.of(name), "scalar");
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "kimi_k2", "kimi_k2:no_q_lora", "glm_moe_dsa"})
    void draftsShouldBeThoseOfTheReference(String name) throws IOException {
        JsonNode golden = TinyModel.golden("golden_tiny").get(name);
        TinyModel model = TinyModel.of(name.split(":")[0]);
        Path path = (name.endsWith("no_q_lora") ? model.withoutQueryLatent() : model).write(dir);
        for (int chunk : new int[] {128, 7, 1}) {
            try (ModelRun run = ModelRun.openDrafting(path, Backend.open("auto", 2), KvFormat.F32)) {
                float[][] all = run.drafts(TinyModel.tokens(golden.get("seq_len").intValue()), chunk);
                float[] logits = all[all.length - 1];
                for (int i = 0; i < 4; i++) {
                    assertThat(logits[i])
                            .as("draft logit %d, chunks of %d", i, chunk)
                            .isCloseTo(golden.get("mtp_first4").get(i).floatValue(), within(TOLERANCE));
                }
                JsonNode best = golden.get("mtp_top1");
                assertThat(logits[best.get(0).intValue()]).isCloseTo(best.get(1).floatValue(), within(TOLERANCE));
                assertThat(IntStream.range(0, logits.length).boxed().max(Comparator.comparing(i -> logits[i])))
                        .contains(best.get(0).intValue());
            }
        }
    }

    @Test
    void wrapperAndShardsShouldNotChangeLogits() throws IOException {
        check("kimi_k2", TinyModel.of("kimi_k2").wrapped().sharded(), "auto");
    }

    @ParameterizedTest
    @ValueSource(strings = {"F32", "F16"})
    void otherTypesOfWeightsShouldBeComputedWith(String dtype) throws IOException {
        // F16 has fewer exponents: embeddings near zero lose digits there, so only F32 meets the golden values.
        try (ModelRun run = open(TinyModel.of("glm4_moe").dtype(dtype), "auto")) {
            JsonNode golden = TinyModel.golden("golden_tiny").get("glm4_moe");
            float tolerance = dtype.equals("F32") ? TOLERANCE : 5e-3f;
            assertLogits(golden, run.all(TinyModel.tokens(40), 40), tolerance);
        }
    }

    private void check(String name, TinyModel model, String backend) throws IOException {
        JsonNode golden = TinyModel.golden("golden_tiny").get(name);
        try (ModelRun run = open(model, backend)) {
            assertLogits(golden, run.all(TinyModel.tokens(golden.get("seq_len").intValue()), 128), TOLERANCE);
        }
    }

    private ModelRun open(TinyModel model, String backend) throws IOException {
        return ModelRun.open(model.write(dir), backend, 1, KvFormat.F32);
    }

    static void assertLogits(JsonNode golden, float[][] all, float tolerance) {
        float[] logits = all[all.length - 1];
        for (int i = 0; i < 8; i++) {
            assertThat(logits[i])
                    .as("logit %d", i)
                    .isCloseTo(golden.get("logits_first8").get(i).floatValue(), within(tolerance));
        }
        int[] best = IntStream.range(0, logits.length)
                .boxed()
                .sorted((a, b) -> Float.compare(logits[b], logits[a]))
                .mapToInt(Integer::intValue)
                .limit(5)
                .toArray();
        for (int i = 0; i < 5; i++) {
            JsonNode expected = golden.get("top5").get(i);
            assertThat(best[i]).as("rank %d", i).isEqualTo(expected.get(0).intValue());
            assertThat(logits[best[i]])
                    .as("logit of rank %d", i)
                    .isCloseTo(expected.get(1).floatValue(), within(tolerance));
        }
        double sum = 0;
        for (float[] position : all) {
            for (float logit : position) {
                sum += Math.abs(logit);
            }
        }
        assertThat(sum / all.length / logits.length)
                .as("mean of the absolute logits of all positions")
                .isCloseTo(golden.get("mean_abs_all").doubleValue(), within((double) tolerance));
    }
}

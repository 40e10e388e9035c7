package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.stream.IntStream;
import millrace.engine.CudaConfig;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// The CUDA backend against logits that were computed elsewhere in float64, of every family that has such: what
/// [TransformerGoldenTest] asks of the processor.
final class CudaGoldenTest {
    @TempDir
    Path dir;

    @BeforeAll
    static void needsTheStandin() {
        StandIn.assumePresent();
    }

    private ModelRun open(String name) throws IOException {
        TinyModel model = TinyModel.of(name.split(":")[0]);
        (name.endsWith("no_q_lora") ? model.withoutQueryLatent() : model).write(dir);
        Backend cuda = Backend.open("cuda", 2, CudaConfig.STANDIN.withMemoryBytes(512 << 20));
        JsonNode golden = TinyModel.golden("golden_tiny").get(name);
        return golden.has("mtp_first4")
                ? ModelRun.openDrafting(dir, cuda, KvFormat.F32)
                : ModelRun.open(dir, cuda, KvFormat.F32);
    }

    /// All logits, and those of the draft layer where there is one; with equal bits however a prompt is cut.
    @ParameterizedTest
    @ValueSource(strings = {"glm4_moe", "kimi_k2", "kimi_k2:no_q_lora", "glm_moe_dsa", "glm4", "llama", "qwen3"})
    void logitsShouldBeThoseOfTheReference(String name) throws IOException {
        JsonNode golden = TinyModel.golden("golden_tiny").get(name);
        int[] ids = TinyModel.tokens(golden.get("seq_len").intValue());
        try (ModelRun run = open(name)) {
            float[][] all = run.all(ids, 128);
            TransformerGoldenTest.assertLogits(golden, all, TransformerGoldenTest.TOLERANCE);
            for (int chunk : new int[] {7, 1}) {
                assertThat(run.last(ids, chunk)).as("chunks of %d", chunk).containsExactly(all[ids.length - 1]);
            }
            if (golden.has("mtp_first4")) {
                draftsShouldBeThoseOfTheReference(golden, run.drafts(ids, 128), run.drafts(ids, 7));
            }
        }
    }

    private static void draftsShouldBeThoseOfTheReference(JsonNode golden, float[][] whole, float[][] pieces) {
        float[] logits = whole[whole.length - 1];
        for (int i = 0; i < 4; i++) {
            assertThat(logits[i])
                    .as("draft logit %d", i)
                    .isCloseTo(golden.get("mtp_first4").get(i).floatValue(), within(TransformerGoldenTest.TOLERANCE));
        }
        int best = golden.get("mtp_top1").get(0).intValue();
        assertThat(IntStream.range(0, logits.length)).as("none is above the reference's").allMatch(i -> logits[i] <= logits[best]);
        for (int t = 0; t < whole.length; t++) {
            assertThat(pieces[t]).as("draft after position %d, in pieces", t).containsExactly(whole[t]);
        }
    }
}

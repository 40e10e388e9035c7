package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.io.Writer;
import java.nio.file.Path;
import java.util.Arrays;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.KvFormat;
import millrace.streams.Models;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// What the default formats cost on the bundled models, over the whole text that comes with them.
@Timeout(180)
class QualityTest {
    private static final PrintWriter QUIET = new PrintWriter(Writer.nullWriter());

    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void theDefaultKvFormatIsLosslessInPractice(String model) throws InterruptedException {
        EngineConfig config = EngineConfig.of(Models.directory(model, dir));
        try (Engine reference = Engine.open(Evaluation.reference(config)); Engine engine = Engine.open(config)) {
            ObjectNode quality = compare(reference, engine, model, Integer.MAX_VALUE);
            assertThat(quality.get("predicted_tokens").asInt()).isGreaterThan(7_900);
            assertThat(QualityPage.within(quality)).as(quality.toString()).isTrue();
            assertThat(quality.get("delta_nll").asDouble()).isNotZero().isLessThanOrEqualTo(0.005);
            assertThat(quality.get("top1_agreement").asDouble()).isBetween(0.99, 0.9999);
            assertThat(quality.get("mean_kl").asDouble()).isBetween(1e-6, 1e-3);
            assertThat(quality.get("p99_kl").asDouble())
                    .isPositive().isLessThan(quality.get("max_kl").asDouble());
        }
    }

    /// Also with other threads and other batches: what is compared are bits.
    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void anEngineDoesNotDivergeFromItself(String model) throws InterruptedException {
        EngineConfig config = EngineConfig.of(Models.directory(model, dir)).withKvFormat(KvFormat.F32);
        assertThat(Evaluation.isReference(config)).isTrue();
        try (Engine reference = Engine.open(Evaluation.reference(config));
                Engine same = Engine.open(config.withThreads(1).withPrefillChunk(50))) {
            ObjectNode quality = compare(reference, same, model, 300);
            assertThat(quality).hasToString("{\"predicted_tokens\":298,\"mean_kl\":0.0,\"p99_kl\":0.0,\"max_kl\":0.0,"
                    + "\"top1_agreement\":1.0,\"delta_nll\":0.0}");
        }
    }

    private static ObjectNode compare(Engine reference, Engine engine, String model, int tokens)
            throws InterruptedException {
        int[] ids = engine.codec().encode(Models.text(model), false);
        DivergenceScore score = new DivergenceScore(
                TextWindows.of(Arrays.stream(ids).limit(tokens).boxed().toList(), 256, model));
        score.run(reference, engine, QUIET);
        ObjectNode quality = JsonLines.mapper().createObjectNode();
        score.report(quality, quality.objectNode(), quality.objectNode());
        return quality;
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Steps of a real engine that hang, fail, run out of memory or give NaN: nobody waits for ever, and no answer is made up.
@Timeout(120)
class EngineFaultsTest {
    @TempDir
    Path directory;

    private Path model;
    private final EngineFaults faults = new EngineFaults();

    @BeforeEach
    void makeModel() throws IOException {
        model = TinyModel.of("glm4_moe").withTokenizer().write(directory);
    }

    private Engine open() {
        return faults.open(EngineConfig.of(model).withThreads(1).withKvBytes(4 << 20)
                .withIntegrity(IntegrityConfig.DEFAULT.withStepTimeout(Duration.ofMillis(500))));
    }

    private static CompletableFuture<GenerationResult> submit(Engine engine, String id) {
        var end = new CompletableFuture<GenerationResult>();
        var request = GenerationRequest.greedy(id, new PromptInput.TokenIds(List.of(1, 2, 3)), 12);
        engine.submit(engine.prepare(request), end::complete);
        return end;
    }

    @Test
    void aStepThatHangsIsGivenUpAndNothingThatItUsesIsReleased() throws Exception {
        Engine engine = open();
        assertThat(submit(engine, "before").get(60, TimeUnit.SECONDS).reason()).isEqualTo(FinishReason.LENGTH);
        assertThat(engine.failure()).isNull();
        faults.strike(EngineFaults.Kind.HANG, 2);
        CompletableFuture<GenerationResult> stuck = submit(engine, "stuck");
        while (engine.failure() == null) {
            Thread.sleep(10);
        }
        assertThat(engine.failure()).startsWith("engine: step ").contains(" has not ended for ")
                .endsWith("Where steps may take so long, raise integrity.step.timeout");
        assertThat(engine.admitting()).isFalse();
        IntegrityEvent last = engine.events(0).getLast();
        assertThat(last.code()).isEqualTo("ENGINE_HUNG");
        assertThat(last.result()).isEqualTo(IntegrityEvent.Result.REFUSED);
        assertThat(stuck).as("no answer").isNotDone();
        engine.close();
        faults.letGo();
        assertThat(engine.pool().freePages()).as("what the step reads is still there").isNotNegative();
        engine.close();
        assertThat(stuck).as("nor later").isNotDone();
    }

    @ParameterizedTest
    @CsvSource({"CRASH, java.lang.IllegalStateException", "OUT_OF_MEMORY, java.lang.OutOfMemoryError"})
    void aStepThatFailsEndsTheEngineAndSaysWhy(EngineFaults.Kind kind, String error) throws Exception {
        try (Engine engine = open()) {
            faults.strike(kind, 2);
            GenerationResult result = submit(engine, "failed").get(60, TimeUnit.SECONDS);
            assertThat(result.reason()).isEqualTo(FinishReason.FAILED);
            assertThat(result.errorCode()).isEqualTo("ENGINE_FAILED");
            assertThat(engine.failure()).startsWith("engine: a step failed with " + error);
            IntegrityEvent last = engine.events(0).getLast();
            assertThat(last.code()).isEqualTo("ENGINE_FAILED");
            assertThat(last.detail()).startsWith("step=").endsWith(" during=a_step error=" + error);
            assertThat(submit(engine, "later").get(60, TimeUnit.SECONDS).errorCode()).isEqualTo("ENGINE_FAILED");
        }
    }

    /// The golden prompt runs after each repair and may be the one that meets it.
    @Test
    void aStepThatGivesNaNIsComputedAgainAndTheAnswerHasTheSameBits() throws Exception {
        try (Engine engine = open()) {
            GenerationResult sound = submit(engine, "sound").get(60, TimeUnit.SECONDS);
            for (int steps = 0; steps < 12; steps++) {
                faults.spoil(steps);
                GenerationResult result = submit(engine, "spoilt-" + steps).get(60, TimeUnit.SECONDS);
                assertThat(faults.spoilt()).isTrue();
                assertThat(result.reason()).isEqualTo(FinishReason.LENGTH);
                assertThat(result.tokenIds()).isEqualTo(sound.tokenIds());
                assertThat(result.transcript().logitsDigests()).isEqualTo(sound.transcript().logitsDigests());
                assertThat(engine.trusts(result)).isTrue();
            }
            assertThat(engine.events(0)).filteredOn(event -> event.code().equals("ENGINE_NUMERIC")).hasSize(12)
                    .allSatisfy(event -> assertThat(event.result()).isEqualTo(IntegrityEvent.Result.REPAIRED))
                    .allSatisfy(event -> assertThat(event.detail()).startsWith("check=nan "));
            assertThat(engine.integrity().computeFaults()).isEqualTo(12);
            assertThat(engine.failure()).isNull();
        }
    }
}

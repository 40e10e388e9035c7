package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// An engine on the CUDA backend, over the stand-in.
@Timeout(120)
final class EngineCudaTest {
    private static final int TOKENS = 12;

    @TempDir
    Path dir;

    @BeforeAll
    static void needsTheStandin() {
        StandIn.assumePresent();
    }

    private EngineConfig config() {
        return EngineConfig.of(dir)
                .withBackend("cuda")
                .withCuda(CudaConfig.STANDIN)
                .withMemoryBytes(256 << 20)
                .withMaxContext(512)
                .withMaxBatch(4)
                .withPrefillChunk(16)
                .withThreads(1);
    }

    private static CompletableFuture<GenerationResult> submit(Engine engine, int prompt) {
        List<Integer> ids = IntStream.of(TinyModel.tokens(9 + 7 * prompt)).boxed().toList();
        var end = new CompletableFuture<GenerationResult>();
        GenerationRequest request = GenerationRequest.greedy("p" + prompt, new PromptInput.TokenIds(ids), TOKENS);
        engine.submit(engine.prepare(request), end::complete);
        return end;
    }

    private static List<GenerationResult> answers(Engine engine) {
        List<CompletableFuture<GenerationResult>> ends = IntStream.range(0, 5).mapToObj(i -> submit(engine, i)).toList();
        return ends.stream().map(CompletableFuture::join).toList();
    }

    @Test
    void tokensShouldBeTheProcessors() throws IOException {
        TinyModel.of("glm4_moe").write(dir);
        List<GenerationResult> expected;
        try (Engine cpu = Engine.openForIds(
                config().withBackend("scalar").withMemoryBytes(0).withKvBytes(8 << 20).withKvFormat(KvFormat.BF16))) {
            expected = answers(cpu);
            assertThat(cpu.card().profile()).isEqualTo("cpu-strict/v3");
        }
        try (Engine cuda = Engine.openForIds(config().withKvFormat(KvFormat.BF16))) {
            List<GenerationResult> got = answers(cuda);
            for (int i = 0; i < expected.size(); i++) {
                assertThat(got.get(i).reason()).isEqualTo(FinishReason.LENGTH);
                assertThat(got.get(i).tokenIds()).as("prompt %d", i).isEqualTo(expected.get(i).tokenIds());
            }
            assertCard(cuda.card());
        }
    }

    private static void assertCard(ModelCard card) {
        assertThat(card.backend()).isEqualTo("cuda");
        assertThat(card.profile()).isEqualTo("cuda-mma/v1");
        assertThat(card.backendReason()).startsWith("asked for; Millrace CUDA stand-in (CPU), device 0, compute capability ");
        assertThat(card.device().standIn()).isTrue();
        assertThat(card.device().imageSha256()).matches("[0-9a-f]{64}");
        MemoryPlan memory = card.memory();
        assertThat(memory.budget()).isEqualTo(256 << 20);
        assertThat(memory.total()).isLessThanOrEqualTo(memory.budget());
        assertThat(List.of(memory.weights(), memory.scratch(), memory.kv())).allMatch(bytes -> bytes > 0);
        assertThat(memory.runtime()).isZero();
        // Four sequences of 512 tokens fit by far, so that is what the cache is made for.
        assertThat(card.kvCapacityTokens()).isEqualTo(4 * 512);
    }

    @Test
    void modelThatDoesNotFitTheDeviceShouldBeRefused() throws IOException {
        TinyModel.of("glm4").write(dir);
        assertThatThrownBy(() -> Engine.openForIds(config().withMemoryBytes(64 << 20).withKvBytes(60 << 20)))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("MEMORY_PLAN"))
                .hasMessageMatching("engine.memory.bytes: expected enough for \\d+ bytes of weights and \\d+ of scratch, and a KV "
                        + "cache of 62914560, got 67108864; raise it, take a smaller engine.weights or engine.kv.format, or "
                        + "lower engine.prefill.chunk; or set engine.backend to native, which computes in the machine's memory");
    }

    /// Nothing is answered, the reason can be read, and another engine answers as if nothing had been.
    @Test
    void faultOfTheDeviceShouldEndTheEngineAndAnswerNobody() throws IOException {
        TinyModel.of("glm4").write(dir);
        List<GenerationResult> expected;
        try (Engine sound = Engine.openForIds(config())) {
            expected = answers(sound);
        }
        try {
            try (Engine engine = Engine.openForIds(config());
                    StandIn.Setting fault = StandIn.with("fault", 400)) {
                fault.during(() -> assertThat(answers(engine))
                        .allMatch(result -> result.reason() == FinishReason.FAILED)
                        .allMatch(result -> "ENGINE_FAILED".equals(result.errorCode())));
                assertThat(engine.failure()).contains("CUDA_ERROR_LAUNCH_FAILED").contains("the fault that was asked for");
                assertThat(engine.events(0)).filteredOn(event -> event.kind() == IntegrityEvent.Kind.DEVICE)
                        .singleElement()
                        .satisfies(event -> {
                            assertThat(event.result()).isEqualTo(IntegrityEvent.Result.REFUSED);
                            assertThat(event.code()).isEqualTo("CUDA_FAILED");
                            assertThat(event.detail())
                                    .matches("result=719 name=CUDA_ERROR_LAUNCH_FAILED kernel=\\S+ sticky=true");
                        });
                assertThat(submit(engine, 1).join().errorCode()).isEqualTo("ENGINE_FAILED");
            }
        } finally {
            StandIn.reset();
        }
        try (Engine next = Engine.openForIds(config())) {
            List<GenerationResult> got = answers(next);
            for (int i = 0; i < expected.size(); i++) {
                assertThat(got.get(i).tokenIds()).as("prompt %d", i).isEqualTo(expected.get(i).tokenIds());
            }
        }
    }
}

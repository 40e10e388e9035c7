package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import millrace.engine.kernel.cuda.CudaKernels;
import millrace.engine.kernel.cuda.ShuffledStandIn;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Whole engines on the CUDA backend: the same tokens and digests of logits however requests share steps, and tokens that the
/// processor would take too.
@Timeout(300)
class CudaEngineTest {
    private static final int LOGITS_EVERY = 6;
    private static final IntegrityConfig CHECKS = new IntegrityConfig(
            "default", IntegrityConfig.DEFAULT.scrubInterval(), 0.01, IntegrityConfig.DEFAULT.kvMaxAge(),
            IntegrityConfig.DEFAULT.canaryInterval(), LOGITS_EVERY, true);

    @TempDir
    Path dir;

    @BeforeAll
    static void needsTheStandIn() {
        StandIn.assumePresent();
    }

    /// What was answered: tokens, and digests of the logits that they were chosen from.
    private record Answer(List<Integer> tokens, List<Integer> digests) {}

    private Path model(String family) throws IOException {
        Path model = dir.resolve(family);
        return Files.isDirectory(model) ? model : TinyModel.of(family).withTokenizer().write(Files.createDirectory(model));
    }

    private EngineConfig config(String family, KvFormat format, int batch, int chunk, int pages) throws IOException {
        Path model = model(family);
        long page = ModelInspection.of(model, null).kv().stream().filter(cost -> cost.format().equals(format.id()))
                .findFirst().orElseThrow().pageBytes();
        return EngineConfig.of(model).withBackend("cuda").withCuda(CudaConfig.STANDIN).withMemoryBytes(512L << 20).withThreads(2)
                .withKvFormat(format).withMaxBatch(batch).withPrefillChunk(chunk).withKvBytes(pages * page).withIntegrity(CHECKS);
    }

    private static List<GenerationRequest> requests(int count) {
        var random = new SplittableRandom(20261130);
        return IntStream.range(0, count).mapToObj(i -> {
            List<Integer> ids = random.ints(i == 0 ? 1 : 1 + random.nextInt(22), 0, 2048).boxed().toList();
            var sampling = i % 3 == 0 ? Sampling.GREEDY : new Sampling(1f, 0.95f, 50, 0.01f, 1.1f, random.nextLong());
            return new GenerationRequest("r" + i, new PromptInput.TokenIds(ids), sampling, i < 4 ? 26 : 3 + i % 4, List.of(),
                    Long.MAX_VALUE, 0);
        }).toList();
    }

    private static List<GenerationResult> run(Engine engine, List<GenerationRequest> requests) {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (GenerationRequest request : requests) {
            var end = new CompletableFuture<GenerationResult>();
            engine.submit(engine.prepare(request), end::complete);
            ends.add(end);
        }
        List<GenerationResult> results = ends.stream().map(CompletableFuture::join).toList();
        results.forEach(result -> assertThat(result.errorMessage()).isNull());
        return results;
    }

    private static List<Answer> answers(List<GenerationResult> results) {
        return results.stream().map(result -> new Answer(result.tokenIds(), result.transcript().logitsDigests())).toList();
    }

    @ParameterizedTest
    @CsvSource({"glm4_moe, INT8", "kimi_k2, FP8", "glm_moe_dsa, INT8"})
    void theBitsAreThoseOfARequestAlone(String family, KvFormat format) throws IOException {
        List<GenerationRequest> requests = requests(7);
        List<Answer> alone;
        try (Engine engine = Engine.open(config(family, format, 1, 256, 200).withPrefixCache(false))) {
            assertThat(engine.card().profile()).isEqualTo(CudaKernels.PROFILE);
            assertThat(engine.card().device().standIn()).isTrue();
            assertThat(engine.card().device().name()).isEqualTo("Millrace CUDA stand-in (CPU)");
            assertThat(engine.card().device().imageSha256()).matches("[0-9a-f]{64}");
            alone = answers(run(engine, requests));
        }
        EngineConfig together = config(family, format, 7, 256, 200);
        ShuffledStandIn.during(20261130, () -> {
            try (Engine engine = Engine.open(together)) {
                assertThat(answers(run(engine, requests))).as("in any order of threads and streams").isEqualTo(alone);
            }
        });
        try (Engine engine = Engine.open(together)) {
            assertThat(answers(run(engine, requests))).as("all together").isEqualTo(alone);
            List<GenerationResult> again = run(engine, requests);
            assertThat(answers(again)).as("from the prefix cache").isEqualTo(alone);
            assertThat(again).as("prompts of a page or more").anyMatch(result -> result.usage().cachedPromptTokens() > 0);
            assertThat(engine.failure()).isNull();
        }
        if (family.equals("glm_moe_dsa")) {
            try (Engine engine = Engine.open(together.withSpeculation(Speculation.of("mtp:2")))) {
                assertThat(answers(run(engine, requests))).as("with drafts").isEqualTo(alone);
            }
        }
        try (Engine engine = Engine.open(config(family, format, 3, 5, 7))) {
            List<GenerationResult> preempted = run(engine, requests);
            assertThat(answers(preempted)).as("three at a time, in chunks of 5, with preemptions").isEqualTo(alone);
            assertThat(preempted.stream().mapToInt(result -> result.transcript().recomputedSteps()).sum()).isPositive();
        }
    }

    /// Whoever asks for log probabilities has its rows on the host, and the sampler choose there; all others have theirs drawn.
    @Test
    void tokensThatTheDeviceDrawsAreTheHosts() throws IOException {
        var random = new SplittableRandom(12);
        List<GenerationRequest> drawn = IntStream.range(0, 9).mapToObj(i -> {
            List<Integer> ids = random.ints(1 + random.nextInt(22), 0, 2048).boxed().toList();
            var sampling = new Sampling(
                    i == 8 ? 0 : 0.5f + 0.2f * i, i % 2 == 0 ? 0.9f : 1, i % 3 == 0 ? 0 : 40, i % 4 == 3 ? 0.02f : 0,
                    i % 5 == 0 ? 1.15f : 1, random.nextLong());
            return new GenerationRequest("r" + i, new PromptInput.TokenIds(ids), sampling, 20, List.of(), Long.MAX_VALUE, 0);
        }).toList();
        List<GenerationRequest> chosen = drawn.stream().map(r -> new GenerationRequest(r.id(), r.input(), r.sampling(),
                r.maxNewTokens(), r.stop(), r.deadlineMs(), r.priority(), r.cacheSalt(), 2, r.format())).toList();
        try (Engine engine = Engine.open(config("glm4_moe", KvFormat.INT8, 9, 64, 200))) {
            List<Answer> host = answers(run(engine, chosen));
            assertThat(answers(run(engine, drawn))).isEqualTo(host);
            List<GenerationRequest> mixed = IntStream.range(0, 9).mapToObj(i -> (i % 2 == 0 ? drawn : chosen).get(i)).toList();
            assertThat(answers(run(engine, mixed))).as("beside one another").isEqualTo(host);
        }
    }

    /// Before weights are read, and not when the first prompt is there.
    @Test
    void deviceWithTooLittleSharedMemoryIsRefusedAtTheStart() throws IOException {
        EngineConfig config = config("kimi_k2", KvFormat.FP8, 1, 64, 20);
        Engine.open(config).close();
        try (StandIn.Setting setting = StandIn.with("shared", 8 << 10)) {
            setting.during(() -> assertThatThrownBy(() -> Engine.open(config))
                    .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_SHARED_MEMORY")));
        }
    }

    /// What an auditor without a GPU does: the processor follows the answers, and finds no token that it would not take too, but
    /// for near ties within the tolerance of docs/numerics.md.
    @ParameterizedTest
    @CsvSource({"glm4_moe, F32, stored, 0x1p-15", "kimi_k2, BF16, packed, 0x1p-9", "glm4_moe_lite, INT8, int8, 0x1p-7",
        "glm4, INT4, int4, 0x1p-7", "qwen2, BF16, bf16, 0x1p-9", "llama, INT8, int8, 0x1p-7",
        "glm_moe_dsa, F32, stored, 0x1p-15"})
    void theProcessorFollowsItsAnswers(String family, KvFormat format, String weights, double share) throws IOException {
        List<GenerationRequest> requests = requests(3);
        EngineConfig config = config(family, format, 3, 64, 200).withWeightFormat(weights);
        List<GenerationResult> results;
        try (Engine engine = Engine.open(config)) {
            results = run(engine, requests);
        }
        try (Engine engine = Engine.open(config.withBackend("auto").withMemoryBytes(0))) {
            assertThat(engine.card().device().isProcessor()).isTrue();
            for (int i = 0; i < requests.size(); i++) {
                var end = new CompletableFuture<Trace>();
                engine.trace(engine.prepare(requests.get(i)), results.get(i).tokenIds(), end::complete);
                Trace trace = end.join();
                assertThat(trace.errorMessage()).isNull();
                assertThat(trace.text()).isEqualTo(results.get(i).text());
                trace.departures().forEach(departure ->
                        assertThat(departure.gap()).as("%s", departure).isLessThanOrEqualTo(2 * share * departure.scale()));
                List<ActivationTop> mine = trace.activations();
                List<ActivationTop> theirs = results.get(i).transcript().activations();
                assertThat(mine).hasSameSizeAs(theirs);
            }
        }
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import millrace.engine.kv.KvFaults;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Real models with small pools: damaged KV pages change no bit of an answer, and sound ones raise no alarm.
@Timeout(600)
class EngineKvFaultTest {
    private static final int DIFFERENT = 40;
    private static final int REQUESTS = 300;
    private static final int SOAK = 1_000;
    private static final int UNDER_WAY = 12;
    private static final List<KvFaults.Kind> KINDS = List.of(
            KvFaults.Kind.CODE_BIT, KvFaults.Kind.INDEX_BIT, KvFaults.Kind.SWAPPED_WORDS, KvFaults.Kind.SWAPPED_PAGES,
            KvFaults.Kind.PERMUTED_BLOCKS, KvFaults.Kind.DUPLICATED_PAGE, KvFaults.Kind.DROPPED_PAGE,
            KvFaults.Kind.ZEROED_SCALES, KvFaults.Kind.DIGEST_BIT, KvFaults.Kind.TAG_BIT);

    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"glm4_moe, BF16, default", "glm4_moe, INT8, strict", "kimi_k2, INT8, default", "glm_moe_dsa, INT8, default"})
    void answersAreThoseOfARunWithoutFaults(String family, KvFormat format, String profile) throws IOException {
        Path model = TinyModel.of(family).withTokenizer().write(dir);
        List<GenerationRequest> requests = requests(12, 40);
        Map<String, GenerationResult> alone = alone(model, format, requests);
        long page = ModelInspection.of(model, null).kv().get(format.ordinal()).pageBytes();
        var random = new SplittableRandom(4);
        int[] injected = new int[1];
        try (Engine engine = Engine.open(config(model, format, profile).withKvBytes(60 * page))) {
            // On the engine's thread, between two rows of a step's results.
            Runnable strike = () -> {
                if (injected[0] < 60 && random.nextInt(60) == 0) {
                    List<Integer> pages = KvFaults.sealedPages(engine.pool());
                    if (!pages.isEmpty()
                            && KvFaults.inject(KINDS.get(random.nextInt(KINDS.size())), engine.pool(),
                                    pages.get(random.nextInt(pages.size())), random)) {
                        injected[0]++;
                    }
                }
            };
            List<GenerationResult> results = run(engine, requests, REQUESTS, strike);
            int failed = 0;
            int recomputed = 0;
            for (GenerationResult result : results) {
                if (result.reason() == FinishReason.FAILED) {
                    assertThat(result.errorCode()).isIn("KV_CORRUPT", "KV_RETIRED", "ENGINE_NUMERIC");
                    failed++;
                    continue;
                }
                GenerationResult right = alone.get(key(result));
                assertThat(right).as("an answer of the run without faults").isNotNull();
                assertThat(result.text()).isEqualTo(right.text());
                assertThat(result.transcript().logitsDigests()).isEqualTo(right.transcript().logitsDigests());
                assertThat(engine.trusts(result)).isTrue();
                recomputed += result.transcript().kvMismatches() > 0 ? 1 : 0;
            }
            assertThat(injected[0]).isGreaterThan(20);
            assertThat(engine.integrity().kvFaults()).isGreaterThan(10);
            assertThat(recomputed).isPositive();
            assertThat(failed).isLessThan(REQUESTS / 10);
            assertThat(engine.failure()).isNull();
            assertThat(engine.integrity().canaryFailures()).isZero();
        }
    }

    /// 2,000 requests in all.
    @ParameterizedTest
    @CsvSource({"glm4_moe, BF16, default", "kimi_k2, INT8, strict"})
    void soundPagesRaiseNoAlarm(String family, KvFormat format, String profile) throws IOException {
        Path model = TinyModel.of(family).withTokenizer().write(dir);
        List<GenerationRequest> requests = requests(4, 12);
        Map<String, GenerationResult> alone = alone(model, format, requests);
        long page = ModelInspection.of(model, null).kv().get(format.ordinal()).pageBytes();
        try (Engine engine = Engine.open(config(model, format, profile).withKvBytes(24 * page))) {
            for (GenerationResult result : run(engine, requests, SOAK, () -> {})) {
                assertThat(result.reason()).isIn(FinishReason.LENGTH, FinishReason.STOP);
                assertThat(alone).containsKey(key(result));
                assertThat(result.transcript().numericGuard()).isTrue();
                assertThat(result.transcript().kvMismatches()).isZero();
                assertThat(engine.trusts(result)).isTrue();
            }
            assertThat(engine.events(0)).isNotEmpty().allSatisfy(event -> assertThat(event.code()).isEmpty());
            assertThat(engine.integrity().kvFaults()).isZero();
            assertThat(engine.integrity().computeFaults()).isZero();
            assertThat(engine.integrity().canaryAgeMs()).isNotNegative();
            assertThat(engine.integrity().admitting()).isTrue();
            awaitAllPagesFree(engine);
        }
    }

    /// The golden prompt holds a page while it runs, which may be at the very moment of asking.
    private static void awaitAllPagesFree(Engine engine) {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (engine.stats().kvFreePages() < engine.stats().kvPages() && System.nanoTime() < end) {
            Thread.onSpinWait();
        }
        assertThat(engine.stats().kvFreePages()).isEqualTo(engine.stats().kvPages());
    }

    private static EngineConfig config(Path model, KvFormat format, String profile) {
        return EngineConfig.of(model)
                .withKvFormat(format)
                .withThreads(2)
                .withMaxBatch(8)
                .withPrefillChunk(24)
                .withIntegrity(new IntegrityConfig(
                        profile, Duration.ofMinutes(5), 0.01, Duration.ofMillis(50), Duration.ofSeconds(1), 8));
    }

    private static List<GenerationRequest> requests(int leastNew, int mostNew) {
        var random = new SplittableRandom(31);
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < DIFFERENT; i++) {
            List<Integer> prompt = new ArrayList<>(ids(random.nextInt(3), 16 * random.nextInt(4) + random.nextInt(2)));
            prompt.addAll(ids(100 + i, 1 + random.nextInt(20)));
            var sampling = i % 2 == 0 ? Sampling.GREEDY : new Sampling(1f, 0.95f, 50, 0f, 1.1f, i);
            requests.add(new GenerationRequest(
                    "r" + i, new PromptInput.TokenIds(prompt), sampling, random.nextInt(leastNew, mostNew), List.of(),
                    Long.MAX_VALUE, random.nextInt(2), i % 4 == 0 ? "tenant" : ""));
        }
        return requests;
    }

    /// Results of each request on its own, with nothing cached and nothing checked, by what was generated.
    private static Map<String, GenerationResult> alone(Path model, KvFormat format, List<GenerationRequest> requests) {
        Map<String, GenerationResult> results = new HashMap<>();
        var unchecked = new IntegrityConfig("off", Duration.ZERO, 0.01, Duration.ZERO, Duration.ZERO, 8);
        try (Engine engine = Engine.open(EngineConfig.of(model).withKvFormat(format).withThreads(2)
                .withPrefixCache(false).withMaxBatch(1).withKvBytes(4 << 20).withIntegrity(unchecked))) {
            for (GenerationRequest request : requests) {
                var end = new CompletableFuture<GenerationResult>();
                engine.submit(engine.prepare(request), end::complete);
                results.put(key(end.join()), end.join());
            }
        }
        return results;
    }

    /// A prompt's length and all tokens of its completion: no two of the requests agree in them.
    private static String key(GenerationResult result) {
        return result.usage().promptTokens() + " " + result.tokenIds();
    }

    private static List<GenerationResult> run(Engine engine, List<GenerationRequest> requests, int count, Runnable onDelta) {
        var random = new SplittableRandom(7);
        var room = new Semaphore(UNDER_WAY);
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            room.acquireUninterruptibly();
            var end = new CompletableFuture<GenerationResult>();
            engine.submit(engine.prepare(requests.get(random.nextInt(DIFFERENT))), new GenerationListener() {
                @Override
                public void onDelta(String text) {
                    onDelta.run();
                }

                @Override
                public void onEnd(GenerationResult result) {
                    room.release();
                    end.complete(result);
                }
            });
            ends.add(end);
        }
        return ends.stream().map(CompletableFuture::join).toList();
    }

    private static List<Integer> ids(int seed, int count) {
        return new SplittableRandom(seed).ints(count, 0, 2_048).boxed().toList();
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Hundreds of requests that share prefixes, some of them cancelled, in a pool that is too small for all, on a real
/// model: each gets the tokens that it gets alone with nothing cached.
@Timeout(240)
class EnginePrefixTest {
    private static final int REQUESTS = 240;
    private static final int DIFFERENT = 40;

    @TempDir
    Path dir;

    @ParameterizedTest
    @CsvSource({"glm4_moe, BF16", "kimi_k2, INT8", "glm_moe_dsa, BF16"})
    void tokensAreThoseOfARunAlone(String family, KvFormat format) throws IOException {
        Path model = TinyModel.of(family).write(dir);
        EngineConfig config = EngineConfig.of(model).withKvFormat(format).withThreads(2);
        var random = new SplittableRandom(31);
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < DIFFERENT; i++) {
            List<Integer> prompt = new ArrayList<>(ids(random.nextInt(3), 16 * random.nextInt(4) + random.nextInt(2)));
            prompt.addAll(ids(100 + i, 1 + random.nextInt(20)));
            var sampling = i % 2 == 0 ? Sampling.GREEDY : new Sampling(1f, 0.95f, 50, 0f, 1.1f, i);
            requests.add(new GenerationRequest(
                    "r" + i, new PromptInput.TokenIds(prompt), sampling, 16 + random.nextInt(40), List.of(), Long.MAX_VALUE,
                    random.nextInt(2), i % 4 == 0 ? "tenant" : ""));
        }
        Map<GenerationRequest, List<Integer>> alone = new HashMap<>();
        Map<GenerationRequest, List<Integer>> digests = new HashMap<>();
        List<float[]> logits;
        try (Engine engine = Engine.openForIds(config.withPrefixCache(false).withMaxBatch(1).withKvBytes(4 << 20))) {
            for (GenerationRequest request : requests) {
                GenerationResult result = submit(engine, request).end().join();
                alone.put(request, result.tokenIds());
                digests.put(request, result.transcript().logitsDigests());
            }
            logits = logits(engine, requests);
            assertThat(engine.stats().prefixHitTokens()).isZero();
        }
        long page = ModelInspection.of(model, null).kv().get(format.ordinal()).pageBytes();
        try (Engine engine = Engine.openForIds(config.withMaxBatch(8).withPrefillChunk(24).withKvBytes(13 * page))) {
            List<Run> runs = new ArrayList<>();
            for (int i = 0; i < REQUESTS; i++) {
                Run run = submit(engine, requests.get(random.nextInt(DIFFERENT)));
                runs.add(run);
                if (random.nextInt(5) == 0) {
                    runs.get(random.nextInt(runs.size())).generation().cancel();
                }
                if (i % 8 == 7) {
                    runs.get(i - random.nextInt(4)).end().join();
                }
            }
            int compared = 0;
            for (Run run : runs) {
                GenerationResult result = run.end().join();
                List<Integer> expected = alone.get(run.request());
                List<Integer> tokens = result.tokenIds();
                assertThat(tokens).as(run.request().id()).isEqualTo(expected.subList(0, tokens.size()));
                if (result.reason() != FinishReason.CANCELLED) {
                    assertThat(tokens).hasSameSizeAs(expected);
                    assertThat(result.transcript().logitsDigests()).isNotEmpty().isEqualTo(digests.get(run.request()));
                    assertThat(result.transcript().kvMismatches()).isZero();
                    compared++;
                }
            }
            EngineStats stats = engine.stats();
            assertThat(compared).isGreaterThan(REQUESTS / 2);
            assertThat(stats.prefixHitTokens()).isGreaterThan(REQUESTS * 8);
            assertThat(stats.prefixEvictions()).isPositive();
            assertThat(stats.preemptions()).isPositive();
            assertThat(engine.events(0)).extracting(IntegrityEvent::result).containsOnly(IntegrityEvent.Result.PASSED);
            assertThat(stats.kvFreePages()).isEqualTo(stats.kvPages());
            logits(engine, requests);
            long hits = engine.stats().prefixHitTokens();
            assertThat(logits(engine, requests)).usingElementComparator(Arrays::compare).isEqualTo(logits);
            assertThat(engine.stats().prefixHitTokens()).isGreaterThan(hits);
        }
    }

    /// Of the last position of each prompt.
    private static List<float[]> logits(Engine engine, List<GenerationRequest> requests) {
        List<float[]> all = new ArrayList<>();
        for (GenerationRequest request : requests) {
            var row = new CompletableFuture<float[]>();
            engine.score(request.id(), ((PromptInput.TokenIds) request.input()).ids(), false, new ScoreListener() {
                @Override
                public void onLogits(int position, float[] logits, int offset) {
                    row.complete(Arrays.copyOfRange(logits, offset, offset + engine.card().vocabSize()));
                }

                @Override
                public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                    assertThat(reason).isEqualTo(FinishReason.LENGTH);
                }
            });
            all.add(row.join());
        }
        return all;
    }

    private record Run(GenerationRequest request, Generation generation, CompletableFuture<GenerationResult> end) {}

    private static Run submit(Engine engine, GenerationRequest request) {
        var end = new CompletableFuture<GenerationResult>();
        return new Run(request, engine.submit(engine.prepare(request), end::complete), end);
    }

    private static List<Integer> ids(int seed, int count) {
        return new SplittableRandom(seed).ints(count, 0, 2048).boxed().toList();
    }
}

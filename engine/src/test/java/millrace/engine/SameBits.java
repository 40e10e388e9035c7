package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// Asserts of one model that its tokens, logits, their digests and log probabilities depend on nothing but model, prompt and sampling: not on the batch,
/// the chunks of the prefill, the threads, the backend, or a preemption.
public final class SameBits {
    private static final long SEED = 20261130;
    private static final int LOGITS_EVERY = 6;
    private static final IntegrityConfig INTEGRITY = new IntegrityConfig(
            "default", Duration.ofMinutes(5), 0.01, Duration.ofMinutes(1), Duration.ofMinutes(1), LOGITS_EVERY);

    private final Path model;
    private final KvFormat format;
    private final List<GenerationRequest> requests = new ArrayList<>();
    private final List<Integer> scored;

    /// @param prompts how many share the largest batch
    public SameBits(Path model, KvFormat format, int vocabSize, int prompts) {
        this.model = model;
        this.format = format;
        var random = new SplittableRandom(SEED);
        for (int i = 0; i < prompts; i++) {
            int length = i == 0 ? 1 : 1 + random.nextInt(24);
            List<Integer> ids = random.ints(length, 0, vocabSize).boxed().toList();
            var sampling = i % 3 == 0 ? Sampling.GREEDY : new Sampling(1f, 0.95f, 50, 0.01f, 1.1f, random.nextLong());
            // The first ones grow by more pages than admission sets aside for them.
            int maxNewTokens = i < 5 ? 40 : 3 + random.nextInt(4);
            var request = new GenerationRequest(
                    "p" + i, new PromptInput.TokenIds(ids), sampling, maxNewTokens, List.of(), Long.MAX_VALUE, 0);
            requests.add(i % 2 == 0 ? request.withLogprobs(i % 8) : request);
        }
        scored = random.ints(40, 0, vocabSize).boxed().toList();
    }

    /// Compares every variant with one sequence at a time on one thread of the scalar backend.
    public void check() {
        Outcome expected = run("scalar, alone", config("scalar", 1, 1, 256));
        assertSame(expected, "vector, all together, 2 threads", config("vector", 2, requests.size(), 256));
        assertSame(expected, "vector, 5 together, chunks of 7", config("vector", 2, 5, 7));
        assertSame(expected, "vector, 2 together, chunks of 1", config("vector", 1, 2, 1));
        // Native where the library is.
        assertSame(expected, "auto, all together, 2 threads", config("auto", 2, requests.size(), 256));
        assertSame(expected, "auto, alone, chunks of 5", config("auto", 1, 1, 5));
        Outcome preempted = run("vector, preempted", config("vector", 2, requests.size(), 16).withKvBytes(7 * pageBytes()));
        assertThat(preempted.recomputedSteps).as("steps computed again").isPositive();
        assertThat(preempted).as("vector, preempted").isEqualTo(expected);
    }

    private EngineConfig config(String backend, int threads, int batch, int chunk) {
        return EngineConfig.of(model)
                .withBackend(backend)
                .withThreads(threads)
                .withMaxBatch(batch)
                .withPrefillChunk(chunk)
                .withKvFormat(format)
                .withIntegrity(INTEGRITY)
                .withKvBytes(400 * pageBytes());
    }

    private long pageBytes() {
        return ModelInspection.of(model, null).kv().stream()
                .filter(cost -> cost.format().equals(format.id()))
                .findFirst()
                .orElseThrow()
                .pageBytes();
    }

    private void assertSame(Outcome expected, String name, EngineConfig config) {
        assertThat(run(name, config)).as("%s, %s, seed %d", name, format, SEED).isEqualTo(expected);
    }

    /// Token ids of each prompt, the digests of their logits that attestations name, their log probabilities, and a digest of the logits of every
    /// scored position; equal without regard to the last.
    private record Outcome(
            List<List<Integer>> tokens,
            List<List<Integer>> digests,
            List<List<TokenLogprob>> logprobs,
            List<Integer> logits,
            int recomputedSteps) {
        @Override
        public boolean equals(@Nullable Object other) {
            return other instanceof Outcome outcome
                    && tokens.equals(outcome.tokens)
                    && digests.equals(outcome.digests)
                    && logprobs.equals(outcome.logprobs)
                    && logits.equals(outcome.logits);
        }

        @Override
        public int hashCode() {
            return tokens.hashCode();
        }
    }

    private Outcome run(String name, EngineConfig config) {
        try (Engine engine = Engine.open(config)) {
            List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
            CompletableFuture<List<Integer>> logits = new CompletableFuture<>();
            for (GenerationRequest request : requests) {
                var end = new CompletableFuture<GenerationResult>();
                engine.submit(engine.prepare(request), end::complete);
                ends.add(end);
                if (ends.size() == requests.size() / 2) {
                    // In the middle, so that scoring shares steps with decodes.
                    engine.score("scored", scored, true, new Digests(engine.card().vocabSize(), logits));
                }
            }
            List<List<Integer>> tokens = new ArrayList<>();
            List<List<Integer>> digests = new ArrayList<>();
            List<List<TokenLogprob>> logprobs = new ArrayList<>();
            int recomputed = 0;
            for (CompletableFuture<GenerationResult> end : ends) {
                GenerationResult result = end.join();
                assertThat(result.errorMessage()).as(name).isNull();
                assertThat(result.transcript().numericGuard()).as(name).isTrue();
                tokens.add(result.tokenIds());
                digests.add(result.transcript().logitsDigests());
                assertThat(digests.getLast()).hasSize(Math.ceilDiv(result.tokenIds().size(), LOGITS_EVERY));
                logprobs.add(result.logprobs());
                assertThat(logprobs.getLast()).hasSize(logprobs.size() % 2 == 0 ? 0 : result.tokenIds().size());
                recomputed += result.transcript().recomputedSteps();
            }
            assertThat(logits.join()).hasSize(scored.size());
            return new Outcome(tokens, digests, logprobs, logits.join(), recomputed);
        }
    }

    private static final class Digests implements ScoreListener {
        private final int vocabSize;
        private final CompletableFuture<List<Integer>> end;
        private final List<Integer> digests = new ArrayList<>();

        Digests(int vocabSize, CompletableFuture<List<Integer>> end) {
            this.vocabSize = vocabSize;
            this.end = end;
        }

        @Override
        public void onLogits(int position, float[] logits, int offset) {
            digests.add(Arrays.hashCode(Arrays.copyOfRange(logits, offset, offset + vocabSize)));
        }

        @Override
        public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
            end.complete(digests);
        }
    }
}

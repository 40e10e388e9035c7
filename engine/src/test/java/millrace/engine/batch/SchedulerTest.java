package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.FinishReason;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.KvFormat;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import millrace.engine.ScoreListener;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PagePool;
import millrace.engine.sampling.Sampler;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class SchedulerTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);

    private final List<PagePool> pools = new ArrayList<>();
    private final ManualClock clock = new ManualClock();

    @AfterEach
    void close() {
        pools.forEach(PagePool::close);
    }

    // -------------------------------------------------------------------------------------------------- same tokens

    /// Alone, in any batch, with any chunk, in any pool: the same tokens.
    @Test
    void tokensDoNotDependOnCompanyChunksOrPreemption() {
        var random = new SplittableRandom(5);
        for (int round = 0; round < 60; round++) {
            int sequences = 1 + random.nextInt(17);
            List<GenerationRequest> requests = new ArrayList<>();
            for (int i = 0; i < sequences; i++) {
                requests.add(request(random, "r" + i));
            }
            int batch = 1 + random.nextInt(17);
            int chunk = 1 + random.nextInt(40);
            int pages = 6 + random.nextInt(20);
            var bench = new Bench(batch, chunk, pages);
            List<Listener> listeners = bench.submit(requests);
            bench.runToTheEnd(5_000);
            for (int i = 0; i < sequences; i++) {
                GenerationResult result = listeners.get(i).end();
                assertThat(result.tokenIds())
                        .as("round %d of seed 5: batch %d, chunk %d, pages %d", round, batch, chunk, pages)
                        .isEqualTo(expected(requests.get(i)));
                assertThat(listeners.get(i).deltas.toString()).isEqualTo(result.text());
                assertThat(result.transcript().maxBatch()).isBetween(1, batch);
                assertThat(result.transcript().numericGuard()).isTrue();
            }
            assertThat(bench.pool.freePages()).isEqualTo(pages);
        }
    }

    @Test
    void preemptsTheYoungestAndComputesItAgain() {
        var bench = new Bench(3, 64, 6);
        // Each grows from one page to three: nine pages where there are six.
        List<GenerationRequest> requests = List.of(unended("old", 0), unended("middle", 100), unended("young", 200));
        List<Listener> listeners = bench.submit(requests);
        bench.runToTheEnd(1_000);
        assertThat(bench.scheduler.preemptions()).isPositive();
        assertThat(listeners.get(0).end().transcript().recomputedSteps()).isZero();
        assertThat(listeners.get(2).end().transcript().recomputedSteps()).isPositive();
        for (int i = 0; i < 3; i++) {
            assertThat(listeners.get(i).end().tokenIds()).isEqualTo(expected(requests.get(i)));
        }
        assertThat(bench.order).containsExactly("old", "middle", "young");
    }

    // -------------------------------------------------------------------------------------------------- shape of steps

    @Test
    void decodesShareTheStepWithChunksOfSeveralPrompts() {
        var bench = new Bench(4, 8, 20);
        bench.submit(List.of(greedy("a", 1, 3, 20)));
        bench.scheduler.step();
        bench.submit(List.of(greedy("b", 2, 5, 20), greedy("c", 3, 9, 20)));
        bench.scheduler.step();
        bench.scheduler.step();
        bench.scheduler.step();
        assertThat(bench.model.steps)
                .extracting(FakeModel.Step::rows)
                .containsExactly(
                        List.of(3), List.of(1, 5, 3), List.of(1, 1, 6), List.of(1, 1, 1));
    }

    @Test
    void higherPriorityIsAdmittedFirst() {
        var bench = new Bench(1, 64, 20);
        bench.submit(List.of(
                greedy("low", 1, 3, 2, -1), greedy("first", 2, 3, 2, 0), greedy("second", 3, 3, 2, 0),
                greedy("high", 4, 3, 2, 9)));
        bench.runToTheEnd(100);
        assertThat(bench.order).containsExactly("high", "first", "second", "low");
    }

    @Test
    void neverRunsMoreThanMaxBatch() {
        var bench = new Bench(2, 64, 50);
        bench.submit(List.of(greedy("a", 1, 3, 5), greedy("b", 2, 3, 5), greedy("c", 3, 3, 5)));
        bench.runToTheEnd(100);
        assertThat(bench.model.steps).allSatisfy(step -> assertThat(step.rows()).hasSizeLessThanOrEqualTo(2));
    }

    // -------------------------------------------------------------------------------------------------- ends

    @Test
    void endsWithTheStopTokenWhichIsCountedButNotShown() {
        int seed = seedWhere(tokens -> tokens.indexOf(FakeTokenizer.END) == 4);
        GenerationRequest request = greedy("r", seed, 4, 30);
        var bench = new Bench(1, 64, 20);
        Listener listener = bench.submit(List.of(request)).getFirst();
        bench.runToTheEnd(100);
        GenerationResult result = listener.end();
        assertThat(result.reason()).isEqualTo(FinishReason.STOP);
        assertThat(result.tokenIds()).hasSize(5).endsWith(FakeTokenizer.END);
        assertThat(result.usage().completionTokens()).isEqualTo(5);
        assertThat(result.usage().promptTokens()).isEqualTo(4);
        assertThat(result.text()).isEqualTo(new FakeTokenizer().decode(ints(result.tokenIds())));
    }

    @Test
    void endsAtAStopStringThatSpansTokens() {
        GenerationRequest plain = greedy("r", 11, 4, 12);
        var bench = new Bench(1, 64, 20);
        Listener listener = bench.submit(List.of(plain)).getFirst();
        bench.runToTheEnd(100);
        String text = listener.end().text();
        assertThat(text.length()).isGreaterThan(8);
        String stop = text.substring(3, 7);
        GenerationRequest stopped = new GenerationRequest(
                "s", plain.input(), Sampling.GREEDY, 12, List.of("never", stop), Long.MAX_VALUE, 0);
        Listener again = bench.submit(List.of(stopped)).getFirst();
        bench.runToTheEnd(100);
        assertThat(again.end().text()).isEqualTo(text.substring(0, text.indexOf(stop)));
        assertThat(again.deltas.toString()).isEqualTo(again.end().text());
        assertThat(again.end().reason()).isEqualTo(FinishReason.STOP);
    }

    @Test
    void endsAtTheDeadlineWhileRunningAndWhileWaiting() {
        var bench = new Bench(1, 64, 20);
        GenerationRequest running = new GenerationRequest(
                "running", ids(1, 4), Sampling.GREEDY, 50, List.of(), 1_000, 0);
        GenerationRequest waiting = new GenerationRequest(
                "waiting", ids(2, 4), Sampling.GREEDY, 50, List.of(), 900, 0);
        List<Listener> listeners = bench.submit(List.of(running, waiting));
        bench.scheduler.step();
        bench.scheduler.step();
        clock.epochMs = 900;
        bench.scheduler.step();
        assertThat(listeners.get(1).end().reason()).isEqualTo(FinishReason.DEADLINE);
        assertThat(listeners.get(1).end().tokenIds()).isEmpty();
        assertThat(listeners.get(0).result).isNull();
        clock.epochMs = 1_000;
        bench.scheduler.step();
        assertThat(listeners.get(0).end().reason()).isEqualTo(FinishReason.DEADLINE);
        assertThat(listeners.get(0).end().tokenIds()).hasSize(3);
        assertThat(bench.scheduler.idle()).isTrue();
        assertThat(bench.pool.freePages()).isEqualTo(20);
    }

    @Test
    void endsWhenCancelled() {
        var bench = new Bench(2, 64, 20);
        Listener listener = new Listener(bench.order, "c");
        Sequence sequence = bench.sequence(greedy("c", 1, 4, 50), listener);
        bench.scheduler.submit(sequence);
        bench.scheduler.step();
        sequence.cancel();
        bench.scheduler.step();
        assertThat(listener.end().reason()).isEqualTo(FinishReason.CANCELLED);
        assertThat(listener.end().tokenIds()).hasSize(1);
        assertThat(bench.pool.freePages()).isEqualTo(20);
    }

    @Test
    void timingsComeFromTheClock() {
        var bench = new Bench(1, 64, 20);
        clock.nanos = 1_000;
        bench.model.beforeStep = () -> clock.nanos += 10;
        Listener listener = bench.submit(List.of(greedy("t", 21, 4, 3))).getFirst();
        clock.nanos += 500;
        bench.runToTheEnd(100);
        assertThat(listener.end().timings().queuedNanos()).isEqualTo(500);
        assertThat(listener.end().timings().firstTokenNanos()).isEqualTo(510);
        assertThat(listener.end().timings().decodeNanos()).isEqualTo(20);
    }

    // -------------------------------------------------------------------------------------------------- numeric guard

    @Test
    void computesAgainWhenLogitsWereSpoiltOnce() {
        var bench = new Bench(1, 64, 20);
        bench.model.spoilt = step -> step == 2;
        GenerationRequest request = greedy("n", 1, 4, 8);
        Listener listener = bench.submit(List.of(request)).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().tokenIds()).isEqualTo(expected(request));
        assertThat(listener.end().transcript().numericGuard()).isFalse();
        assertThat(listener.end().transcript().recomputedSteps()).isEqualTo(3);
    }

    @Test
    void failsWhenLogitsAreSpoiltAgain() {
        var bench = new Bench(2, 64, 20);
        bench.model.spoilt = step -> true;
        Listener listener = bench.submit(List.of(greedy("n", 1, 4, 8))).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().reason()).isEqualTo(FinishReason.FAILED);
        assertThat(listener.end().errorCode()).isEqualTo("ENGINE_NUMERIC");
        assertThat(listener.end().errorMessage()).isEqualTo("logits at position 3: expected finite numbers, got NaN or "
                + "infinity, also when computed again; check the model files and the memory of this machine");
        assertThat(listener.end().tokenIds()).isEmpty();
    }

    // -------------------------------------------------------------------------------------------------- scoring

    @Test
    void scoresEveryPositionOnceWhateverTheChunks() {
        for (int chunk : new int[] {1, 3, 7, 100}) {
            for (int pages : new int[] {4, 30}) {
                var bench = new Bench(4, chunk, pages);
                bench.submit(List.of(greedy("other", 1, 20, 40)));
                int[] ids = new SplittableRandom(8).ints(40, 0, FakeModel.VOCAB).toArray();
                Scores scores = new Scores();
                bench.scheduler.submit(new Sequence(
                        "score", ids, 0, 0, Long.MAX_VALUE, 0,
                        new ScoringWork(true, FakeModel.VOCAB, scores, () -> {})));
                bench.runToTheEnd(1_000);
                assertThat(scores.reason).isEqualTo(FinishReason.LENGTH);
                assertThat(scores.rows).hasSize(40);
                List<Integer> prefix = new ArrayList<>();
                for (int i = 0; i < 40; i++) {
                    prefix.add(ids[i]);
                    assertThat(scores.rows.get(i)).containsExactly(FakeModel.logitsAfter(prefix));
                }
            }
        }
    }

    @Test
    void scoresTheLastPosition() {
        var bench = new Bench(1, 3, 20);
        Scores scores = new Scores();
        bench.scheduler.submit(new Sequence(
                "score", new int[] {5, 6, 7, 8}, 0, 0, Long.MAX_VALUE, 0,
                new ScoringWork(false, FakeModel.VOCAB, scores, () -> {})));
        bench.runToTheEnd(10);
        assertThat(scores.rows).containsOnlyKeys(3);
        assertThat(scores.rows.get(3)).containsExactly(FakeModel.logitsAfter(List.of(5, 6, 7, 8)));
    }

    @Test
    void namesTheSequenceThatDoesNotFitThePool() {
        var bench = new Bench(1, 64, 2);
        bench.submit(List.of(greedy("big", 1, 33, 2)));
        assertThatThrownBy(() -> bench.runToTheEnd(100))
                .hasMessage("scheduler: sequence big with 33 tokens does not fit 2 pages of 16 tokens");
    }

    @Test
    void aListenerThatThrowsLosesOnlyItsOwnGeneration() {
        var bench = new Bench(2, 64, 20);
        GenerationListener broken = new GenerationListener() {
            @Override
            public void onDelta(String text) {
                throw new IllegalArgumentException("broken");
            }

            @Override
            public void onEnd(GenerationResult result) {
                assertThat(result.reason()).isEqualTo(FinishReason.CANCELLED);
            }
        };
        GenerationRequest good = greedy("good", 2, 4, 8);
        bench.scheduler.submit(bench.sequence(greedy("bad", 1, 4, 8), broken));
        Listener listener = bench.submit(List.of(good)).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().tokenIds()).isEqualTo(expected(good));
    }

    // -------------------------------------------------------------------------------------------------- helpers

    private final class Bench {
        final FakeModel model;
        final PagePool pool;
        final Scheduler scheduler;
        final Sampler sampler = new Sampler(FakeModel.VOCAB);
        final List<String> order = new ArrayList<>();

        Bench(int maxBatch, int chunk, int pages) {
            int logitRows = maxBatch + 2;
            model = new FakeModel(logitRows);
            pool = new PagePool(LAYOUT, pages * LAYOUT.pageBytes());
            pools.add(pool);
            scheduler = new Scheduler(model, pool, clock, maxBatch, chunk, logitRows);
        }

        List<Listener> submit(List<GenerationRequest> requests) {
            List<Listener> listeners = new ArrayList<>();
            for (GenerationRequest request : requests) {
                Listener listener = new Listener(order, request.id());
                scheduler.submit(sequence(request, listener));
                listeners.add(listener);
            }
            return listeners;
        }

        Sequence sequence(GenerationRequest request, GenerationListener listener) {
            var vocabulary = new Vocabulary(new FakeTokenizer(), Set.of(FakeTokenizer.END));
            int[] prompt = ints(((PromptInput.TokenIds) request.input()).ids());
            return new Sequence(
                    request.id(), prompt, request.maxNewTokens(), request.priority(), request.deadlineMs(), clock.nanos,
                    new GenerationWork(request, sampler, vocabulary, listener, clock, () -> {}));
        }

        void runToTheEnd(int mostSteps) {
            for (int i = 0; !scheduler.idle(); i++) {
                assertThat(i).as("steps").isLessThan(mostSteps);
                scheduler.step();
            }
        }
    }

    private static final class Listener implements GenerationListener {
        final StringBuilder deltas = new StringBuilder();
        final List<String> order;
        final String id;
        @Nullable GenerationResult result;

        Listener(List<String> order, String id) {
            this.order = order;
            this.id = id;
        }

        @Override
        public void onDelta(String text) {
            deltas.append(text);
        }

        @Override
        public void onEnd(GenerationResult end) {
            assertThat(result).as("second end").isNull();
            result = end;
            order.add(id);
        }

        GenerationResult end() {
            assertThat(result).as("end of " + id).isNotNull();
            return java.util.Objects.requireNonNull(result);
        }
    }

    private static final class Scores implements ScoreListener {
        final Map<Integer, float[]> rows = new HashMap<>();
        @Nullable FinishReason reason;

        @Override
        public void onLogits(int position, float[] logits, int offset) {
            float[] row = java.util.Arrays.copyOfRange(logits, offset, offset + FakeModel.VOCAB);
            assertThat(rows.put(position, row)).as("position twice").isNull();
        }

        @Override
        public void onEnd(FinishReason end, @Nullable String errorCode, @Nullable String errorMessage) {
            reason = end;
        }
    }

    private static final class ManualClock implements StepClock {
        long nanos;
        long epochMs;

        @Override
        public long nanos() {
            return nanos;
        }

        @Override
        public long epochMs() {
            return epochMs;
        }
    }

    private static GenerationRequest request(SplittableRandom random, String id) {
        var sampling = new Sampling(random.nextInt(2) == 0 ? 0f : 0.8f, 0.95f, 0, 0f, 1.1f, random.nextLong());
        int prompt = 1 + random.nextInt(40);
        return new GenerationRequest(
                id, ids(random.nextInt(1000), prompt), sampling, 1 + random.nextInt(40), List.of("ab", "xyz"),
                Long.MAX_VALUE, random.nextInt(2));
    }

    private static GenerationRequest greedy(String id, int seed, int prompt, int maxNewTokens) {
        return greedy(id, seed, prompt, maxNewTokens, 0);
    }

    private static GenerationRequest greedy(String id, int seed, int prompt, int maxNewTokens, int priority) {
        return new GenerationRequest(
                id, ids(seed, prompt), Sampling.GREEDY, maxNewTokens, List.of(), Long.MAX_VALUE, priority);
    }

    /// 10 tokens whose completion has all of its 36 tokens; the first seed from `seed` on.
    private static GenerationRequest unended(String id, int seed) {
        GenerationRequest request = greedy(id, seed, 10, 36);
        return expected(request).size() == 36 ? request : unended(id, seed + 1);
    }

    private static PromptInput ids(int seed, int count) {
        return new PromptInput.TokenIds(
                new SplittableRandom(seed).ints(count, 0, 60).boxed().toList());
    }

    private static int seedWhere(java.util.function.Predicate<List<Integer>> wanted) {
        for (int seed = 0; seed < 10_000; seed++) {
            if (wanted.test(expected(greedy("probe", seed, 4, 30)))) {
                return seed;
            }
        }
        throw new IllegalStateException("no such seed");
    }

    /// The completion by its definition: one token after the other, nothing cached, nobody else there.
    private static List<Integer> expected(GenerationRequest request) {
        List<Integer> tokens = new ArrayList<>(((PromptInput.TokenIds) request.input()).ids());
        int prompt = tokens.size();
        var sampler = new Sampler(FakeModel.VOCAB);
        var text = new StopStrings(request.stop());
        var decoder = new millrace.engine.tokenizer.IncrementalDecoder(new FakeTokenizer());
        for (int step = 0; step < request.maxNewTokens(); step++) {
            int token = sampler.sample(
                    FakeModel.logitsAfter(tokens), 0, request.sampling(), ints(tokens), tokens.size(), step);
            tokens.add(token);
            if (token == FakeTokenizer.END) {
                break;
            }
            text.append(decoder.append(token));
            if (text.stopped()) {
                break;
            }
        }
        return tokens.subList(prompt, tokens.size());
    }

    private static int[] ints(List<Integer> list) {
        return list.stream().mapToInt(i -> i).toArray();
    }
}

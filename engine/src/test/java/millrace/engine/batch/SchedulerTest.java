package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.FinishReason;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.IntegrityEvent;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class SchedulerTest {
    private final List<Bench> benches = new ArrayList<>();

    @AfterEach
    void close() {
        benches.forEach(Bench::close);
    }

    private Bench bench(int maxBatch, int chunk, int pages) {
        Bench bench = new Bench(maxBatch, chunk, pages, false, 2_000);
        benches.add(bench);
        return bench;
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
            var bench = bench(batch, chunk, pages);
            List<Bench.Run> listeners = bench.submit(requests);
            bench.runToTheEnd(5_000);
            for (int i = 0; i < sequences; i++) {
                GenerationResult result = listeners.get(i).end();
                assertThat(result.tokenIds())
                        .as("round %d of seed 5: batch %d, chunk %d, pages %d", round, batch, chunk, pages)
                        .isEqualTo(Bench.expected(requests.get(i)));
                assertThat(listeners.get(i).deltas.toString()).isEqualTo(result.text());
                assertThat(result.transcript().maxBatch()).isBetween(1, batch);
                assertThat(result.transcript().numericGuard()).isTrue();
            }
            assertThat(bench.pool.freePages()).isEqualTo(pages);
        }
    }

    @Test
    void preemptsTheYoungestAndComputesItAgain() {
        var bench = bench(3, 64, 6);
        // Each grows from one page to three: nine pages where there are six.
        List<GenerationRequest> requests = List.of(unended("old", 0), unended("middle", 100), unended("young", 200));
        List<Bench.Run> listeners = bench.submit(requests);
        bench.runToTheEnd(1_000);
        assertThat(bench.scheduler.preemptions()).isPositive();
        assertThat(listeners.get(0).end().transcript().recomputedSteps()).isZero();
        assertThat(listeners.get(2).end().transcript().recomputedSteps()).isPositive();
        for (int i = 0; i < 3; i++) {
            assertThat(listeners.get(i).end().tokenIds()).isEqualTo(Bench.expected(requests.get(i)));
        }
        assertThat(bench.order).containsExactly("old", "middle", "young");
    }

    // -------------------------------------------------------------------------------------------------- shape of steps

    @Test
    void decodesShareTheStepWithChunksOfSeveralPrompts() {
        var bench = bench(4, 8, 20);
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
        var bench = bench(1, 64, 20);
        bench.submit(List.of(
                greedy("low", 1, 3, 2, -1), greedy("first", 2, 3, 2, 0), greedy("second", 3, 3, 2, 0),
                greedy("high", 4, 3, 2, 9)));
        bench.runToTheEnd(100);
        assertThat(bench.order).containsExactly("high", "first", "second", "low");
    }

    @Test
    void neverRunsMoreThanMaxBatch() {
        var bench = bench(2, 64, 50);
        bench.submit(List.of(greedy("a", 1, 3, 5), greedy("b", 2, 3, 5), greedy("c", 3, 3, 5)));
        bench.runToTheEnd(100);
        assertThat(bench.model.steps).allSatisfy(step -> assertThat(step.rows()).hasSizeLessThanOrEqualTo(2));
    }

    // -------------------------------------------------------------------------------------------------- ends

    @Test
    void endsWithTheStopTokenWhichIsCountedButNotShown() {
        int seed = seedWhere(tokens -> tokens.indexOf(FakeTokenizer.END) == 4);
        GenerationRequest request = greedy("r", seed, 4, 30);
        var bench = bench(1, 64, 20);
        Bench.Run listener = bench.submit(List.of(request)).getFirst();
        bench.runToTheEnd(100);
        GenerationResult result = listener.end();
        assertThat(result.reason()).isEqualTo(FinishReason.STOP);
        assertThat(result.tokenIds()).hasSize(5).endsWith(FakeTokenizer.END);
        assertThat(result.usage().completionTokens()).isEqualTo(5);
        assertThat(result.usage().promptTokens()).isEqualTo(4);
        assertThat(result.text()).isEqualTo(new FakeTokenizer().decode(result.tokenIds().stream().mapToInt(i -> i).toArray()));
    }

    @Test
    void endsAtAStopStringThatSpansTokens() {
        GenerationRequest plain = greedy("r", 11, 4, 12);
        var bench = bench(1, 64, 20);
        Bench.Run listener = bench.submit(List.of(plain)).getFirst();
        bench.runToTheEnd(100);
        String text = listener.end().text();
        assertThat(text.length()).isGreaterThan(8);
        String stop = text.substring(3, 7);
        GenerationRequest stopped = new GenerationRequest(
                "s", plain.input(), Sampling.GREEDY, 12, List.of("never", stop), Long.MAX_VALUE, 0);
        Bench.Run again = bench.submit(List.of(stopped)).getFirst();
        bench.runToTheEnd(100);
        assertThat(again.end().text()).isEqualTo(text.substring(0, text.indexOf(stop)));
        assertThat(again.deltas.toString()).isEqualTo(again.end().text());
        assertThat(again.end().reason()).isEqualTo(FinishReason.STOP);
    }

    @Test
    void endsAtTheDeadlineWhileRunningAndWhileWaiting() {
        var bench = bench(1, 64, 20);
        GenerationRequest running = new GenerationRequest(
                "running", ids(1, 4), Sampling.GREEDY, 50, List.of(), 1_000, 0);
        GenerationRequest waiting = new GenerationRequest(
                "waiting", ids(2, 4), Sampling.GREEDY, 50, List.of(), 900, 0);
        List<Bench.Run> listeners = new ArrayList<>(bench.submit(List.of(running)));
        bench.scheduler.step();
        listeners.addAll(bench.submit(List.of(waiting)));
        bench.scheduler.step();
        bench.clock.epochMs = 900;
        bench.scheduler.step();
        assertThat(listeners.get(1).end().reason()).isEqualTo(FinishReason.DEADLINE);
        assertThat(listeners.get(1).end().tokenIds()).isEmpty();
        assertThat(listeners.get(0).ended()).isFalse();
        bench.clock.epochMs = 1_000;
        bench.scheduler.step();
        assertThat(listeners.get(0).end().reason()).isEqualTo(FinishReason.DEADLINE);
        assertThat(listeners.get(0).end().tokenIds()).hasSize(3);
        assertThat(bench.scheduler.idle()).isTrue();
        assertThat(bench.pool.freePages()).isEqualTo(20);
    }

    @Test
    void endsWhenCancelled() {
        var bench = bench(2, 64, 20);
        Bench.Run listener = bench.submit(greedy("c", 1, 4, 50));
        bench.scheduler.step();
        listener.sequence.cancel();
        bench.scheduler.step();
        assertThat(listener.end().reason()).isEqualTo(FinishReason.CANCELLED);
        assertThat(listener.end().tokenIds()).hasSize(1);
        assertThat(bench.pool.freePages()).isEqualTo(20);
    }

    @Test
    void timingsComeFromTheClock() {
        var bench = bench(1, 64, 20);
        bench.clock.nanos = 1_000;
        bench.model.beforeStep = () -> bench.clock.nanos += 10;
        Bench.Run listener = bench.submit(List.of(greedy("t", 21, 4, 3))).getFirst();
        bench.clock.nanos += 500;
        bench.runToTheEnd(100);
        assertThat(listener.end().timings().queuedNanos()).isEqualTo(500);
        assertThat(listener.end().timings().firstTokenNanos()).isEqualTo(510);
        assertThat(listener.end().timings().decodeNanos()).isEqualTo(20);
    }

    // -------------------------------------------------------------------------------------------------- numeric guard

    @Test
    void computesAgainWhenLogitsWereSpoiltOnce() {
        var bench = bench(1, 64, 20);
        bench.model.spoilt = step -> step == 2;
        GenerationRequest request = greedy("n", 1, 4, 8);
        Bench.Run listener = bench.submit(List.of(request)).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().tokenIds()).isEqualTo(Bench.expected(request));
        assertThat(listener.end().transcript().numericGuard()).isFalse();
        assertThat(listener.end().transcript().recomputedSteps()).isEqualTo(3);
    }

    @Test
    void looksAtTheWeightsWhenLogitsAreSpoiltTwice() {
        var bench = bench(1, 64, 20);
        bench.model.spoilt = step -> bench.watch.checks == 0;
        GenerationRequest request = greedy("n", 1, 4, 8);
        Bench.Run listener = bench.submit(List.of(request)).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().tokenIds()).isEqualTo(Bench.expected(request));
        assertThat(bench.watch.checks).isOne();
    }

    @Test
    void failsWhenLogitsAreSpoiltAgain() {
        var bench = bench(2, 64, 20);
        bench.model.spoilt = step -> true;
        Bench.Run listener = bench.submit(List.of(greedy("n", 1, 4, 8))).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().reason()).isEqualTo(FinishReason.FAILED);
        assertThat(listener.end().errorCode()).isEqualTo("ENGINE_NUMERIC");
        assertThat(listener.end().errorMessage()).isEqualTo("logits at position 3: expected finite numbers within "
                + "the bound of the weights, not all equal, got \"nan\", also when computed again; check the model files and "
                + "the memory of this machine");
        assertThat(bench.watch.checks).as("looks at the weights").isOne();
        assertThat(bench.ledger.events(0)).extracting(IntegrityEvent::detail).containsExactly(
                "check=nan position=3 step=1 time=1", "check=nan position=3 step=2 time=2", "check=nan position=3 step=3 time=3");
        assertThat(bench.ledger.state().computeFaults()).isEqualTo(3);
        assertThat(listener.end().tokenIds()).isEmpty();
    }

    // -------------------------------------------------------------------------------------------------- products

    @Test
    void saysThatProductsWereLookedAt() {
        var bench = bench(1, 64, 20);
        Bench.Run listener = bench.submit(List.of(greedy("n", 1, 4, 8))).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().transcript().productsChecked()).isTrue();
        assertThat(bench.ledger.events(0)).isEmpty();
    }

    @Test
    void handsOutNothingOfAStepWithAWrongProduct() {
        var bench = bench(2, 64, 20);
        bench.products.wrong = step -> step == 3;
        List<GenerationRequest> requests = List.of(greedy("a", 1, 4, 8), greedy("b", 2, 20, 8));
        List<Bench.Run> listeners = bench.submit(requests);
        bench.runToTheEnd(100);
        for (int i = 0; i < requests.size(); i++) {
            assertThat(listeners.get(i).end().tokenIds()).isEqualTo(Bench.expected(requests.get(i)));
            assertThat(listeners.get(i).end().transcript().recomputedSteps()).isEqualTo(2);
        }
        assertThat(bench.ledger.events(0)).extracting(IntegrityEvent::detail)
                .containsExactly("check=product wrong=1 step=3 time=1");
        assertThat(bench.ledger.state().computeFaults()).isOne();
        assertThat(bench.ledger.admitting()).isTrue();
        assertThat(bench.watch.checks).as("looks at the weights").isZero();
    }

    @Test
    void refusesWhenProductsStayWrong() {
        var bench = bench(2, 64, 20);
        bench.products.wrong = step -> true;
        Bench.Run listener = bench.submit(List.of(greedy("n", 1, 4, 8))).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().reason()).isEqualTo(FinishReason.FAILED);
        assertThat(listener.end().errorCode()).isEqualTo("ENGINE_PRODUCT");
        assertThat(listener.end().errorMessage()).isEqualTo("products of integers: expected those of a second computation, got 1"
                + " others in step 3, three times in a row; test or replace this machine");
        assertThat(listener.end().tokenIds()).isEmpty();
        assertThat(bench.watch.checks).as("looks at the weights").isOne();
        assertThat(bench.ledger.admitting()).isFalse();
        assertThat(bench.ledger.refusal()).isEqualTo(listener.end().errorMessage());
        assertThat(bench.pool.freePages()).isEqualTo(bench.pool.pageCount());
    }

    // -------------------------------------------------------------------------------------------------- scoring

    @Test
    void scoresEveryPositionOnceWhateverTheChunks() {
        for (int chunk : new int[] {1, 3, 7, 100}) {
            for (int pages : new int[] {4, 30}) {
                var bench = bench(4, chunk, pages);
                bench.submit(List.of(greedy("other", 1, 20, 40)));
                int[] ids = new SplittableRandom(8).ints(40, 0, FakeModel.VOCAB).toArray();
                Scores scores = new Scores();
                bench.scheduler.submit(new Sequence(
                        "score", ids, 0, 0, Long.MAX_VALUE, "", 0,
                        new ScoringWork(true, Bench.CHECK, scores, () -> {})));
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
        var bench = bench(1, 3, 20);
        Scores scores = new Scores();
        bench.scheduler.submit(new Sequence(
                "score", new int[] {5, 6, 7, 8}, 0, 0, Long.MAX_VALUE, "", 0,
                new ScoringWork(false, Bench.CHECK, scores, () -> {})));
        bench.runToTheEnd(10);
        assertThat(scores.rows).containsOnlyKeys(3);
        assertThat(scores.rows.get(3)).containsExactly(FakeModel.logitsAfter(List.of(5, 6, 7, 8)));
    }

    @Test
    void namesTheSequenceThatDoesNotFitThePool() {
        var bench = bench(1, 64, 2);
        bench.submit(List.of(greedy("big", 1, 33, 2)));
        assertThatThrownBy(() -> bench.runToTheEnd(100))
                .hasMessage("scheduler: sequence big with 33 tokens does not fit 2 pages of 16 tokens");
    }

    @Test
    void aListenerThatThrowsLosesOnlyItsOwnGeneration() {
        var bench = bench(2, 64, 20);
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
        Bench.Run listener = bench.submit(List.of(good)).getFirst();
        bench.runToTheEnd(100);
        assertThat(listener.end().tokenIds()).isEqualTo(Bench.expected(good));
    }

    // -------------------------------------------------------------------------------------------------- helpers

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
        return Bench.expected(request).size() == 36 ? request : unended(id, seed + 1);
    }

    private static PromptInput ids(int seed, int count) {
        return new PromptInput.TokenIds(
                new SplittableRandom(seed).ints(count, 0, 60).boxed().toList());
    }

    private static int seedWhere(java.util.function.Predicate<List<Integer>> wanted) {
        for (int seed = 0; seed < 10_000; seed++) {
            if (wanted.test(Bench.expected(greedy("probe", seed, 4, 30)))) {
                return seed;
            }
        }
        throw new IllegalStateException("no such seed");
    }
}

package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// What sequences share through the prefix index: which tokens are not computed, that results stay what they are alone,
/// and that nothing doubtful is ever shared.
class PrefixCacheTest {
    private static final long NEVER = Long.MAX_VALUE;

    private final List<Bench> benches = new ArrayList<>();

    @AfterEach
    void close() {
        benches.forEach(Bench::close);
    }

    private Bench bench(int maxBatch, int chunk, int pages) {
        Bench bench = new Bench(maxBatch, chunk, pages);
        benches.add(bench);
        return bench;
    }

    // -------------------------------------------------------------------------------------------------- what hits

    /// Where a prompt is a whole number of pages, the last of them is computed again: its last token's logits are needed.
    @Test
    void hitsFullPagesButAlwaysComputesTheLastToken() {
        for (int length : new int[] {1, 15, 16, 17, 32, 33, 63, 64, 65, 80}) {
            Bench bench = bench(2, 100, 40);
            List<Integer> prompt = Bench.ids(length, length);
            GenerationRequest request = Bench.greedy("r", prompt, 5);
            assertThat(bench.complete(request).cached()).isZero();
            long rows = bench.model.rowCount;
            Bench.Run again = bench.complete(request);
            int hit = (length - 1) / 16 * 16;
            assertThat(again.cached()).as("of %d", length).isEqualTo(hit);
            assertThat(bench.model.rowCount - rows).isEqualTo(length - hit + again.end().tokenIds().size() - 1);
            assertThat(again.end().tokenIds()).isEqualTo(Bench.expected(request));
            assertThat(bench.pool.index().hitTokens()).isEqualTo(hit);
            bench.assertNothingHeld();
        }
    }

    @Test
    void theNextTurnOfASessionHitsPromptAndCompletionOfTheLast() {
        Bench bench = bench(2, 100, 40);
        List<Integer> conversation = Bench.ids(3, 20);
        int computed = 0;
        for (int turn = 0; turn < 5; turn++) {
            GenerationRequest request = Bench.greedy("turn " + turn, conversation, 25);
            Bench.Run run = bench.complete(request);
            assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(request));
            // All but the last token of the turn before had been computed, in pages of 16.
            assertThat(run.cached()).isEqualTo(computed / 16 * 16);
            computed = run.conversation().size() - 1;
            conversation = Bench.join(run.conversation(), Bench.ids(turn, 7));
        }
        bench.assertNothingHeld();
    }

    @Test
    void saltsNeverShare() {
        Bench bench = bench(2, 100, 40);
        List<Integer> prompt = Bench.ids(1, 50);
        for (String salt : List.of("", "tenant a", "tenant b")) {
            assertThat(bench.complete(Bench.request("first", prompt, 2, 0, NEVER, salt)).cached()).isZero();
            assertThat(bench.complete(Bench.request("again", prompt, 2, 0, NEVER, salt)).cached()).isEqualTo(48);
        }
    }

    /// One computes the common prefix, the others wait for their chunk and then find it.
    @Test
    void aBurstComputesItsCommonPrefixOnce() {
        Bench bench = bench(8, 64, 100);
        List<Integer> common = Bench.ids(1, 320);
        List<Bench.Run> runs = IntStream.range(0, 8)
                .mapToObj(i -> bench.submit(Bench.greedy("r" + i, Bench.join(common, Bench.ids(i + 10, 5)), 3)))
                .toList();
        bench.runToTheEnd(100);
        for (Bench.Run run : runs) {
            assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(run.request));
            assertThat(run.cached()).isEqualTo(run == runs.getFirst() ? 0 : 320);
        }
        assertThat(bench.model.rowCount).isLessThan(325 + 7 * 5 + 8 * 3);
        bench.assertNothingHeld();
    }

    /// Both fill the same page in the same step; one copy stays, and both go on from it.
    @Test
    void twoThatComputeTheSameAtOnceEndWithOneCopy() {
        Bench bench = bench(2, 100, 20);
        List<Integer> common = Bench.ids(1, 40);
        Bench.Run first = bench.submit(Bench.greedy("a", Bench.join(common, Bench.ids(2, 3)), 20));
        Bench.Run second = bench.submit(Bench.greedy("b", Bench.join(common, Bench.ids(3, 3)), 20));
        bench.steps(1);
        assertThat(bench.pool.freePages()).isEqualTo(20 - 4);
        bench.runToTheEnd(100);
        assertThat(first.end().tokenIds()).isEqualTo(Bench.expected(first.request));
        assertThat(second.end().tokenIds()).isEqualTo(Bench.expected(second.request));
        assertThat(second.cached()).as("both computed it").isZero();
        // The tail of both can be found, though one of them gave its copy of the prefix up.
        for (Bench.Run run : List.of(first, second)) {
            int computed = run.conversation().size() - 1;
            assertThat(bench.complete(Bench.greedy("next", Bench.join(run.conversation(), List.of(1)), 1)).cached())
                    .isEqualTo(computed / 16 * 16);
        }
        bench.assertNothingHeld();
    }

    @Test
    void scoringOfAllPositionsSkipsNone() {
        Bench bench = bench(2, 100, 20);
        List<Integer> ids = Bench.ids(1, 40);
        bench.complete(Bench.greedy("warm", ids, 1));
        for (boolean all : new boolean[] {true, false}) {
            long hits = bench.pool.index().hitTokens();
            List<Integer> positions = new ArrayList<>();
            var listener = new ScoreListener() {
                @Override
                public void onLogits(int position, float[] logits, int offset) {
                    positions.add(position);
                    float[] row = java.util.Arrays.copyOfRange(logits, offset, offset + FakeModel.VOCAB);
                    assertThat(row).containsExactly(FakeModel.logitsAfter(ids.subList(0, position + 1)));
                }

                @Override
                public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                    assertThat(reason).isEqualTo(FinishReason.LENGTH);
                }
            };
            bench.scheduler.submit(new Sequence(
                    "score", ids.stream().mapToInt(i -> i).toArray(), 0, 0, NEVER, "", 0,
                    new ScoringWork(all, Bench.CHECK, listener, () -> {})));
            bench.runToTheEnd(20);
            assertThat(positions).hasSize(all ? 40 : 1);
            assertThat(bench.pool.index().hitTokens() - hits).isEqualTo(all ? 0 : 32);
        }
    }

    // -------------------------------------------------------------------------------------------------- memory

    @Test
    void thePagesOfAPreemptedSequenceMakeResumingCheap() {
        long[] rows = new long[2];
        for (boolean sharing : new boolean[] {false, true}) {
            Bench bench = new Bench(2, 64, 12, sharing, 2_000);
            benches.add(bench);
            GenerationRequest old = unended("old", 1, 40, 100);
            GenerationRequest young = unended("young", 100, 40, 60);
            Bench.Run first = bench.submit(old);
            Bench.Run second = bench.submit(young);
            bench.runToTheEnd(1_000);
            assertThat(bench.scheduler.preemptions()).isPositive();
            assertThat(first.end().tokenIds()).isEqualTo(Bench.expected(old));
            assertThat(second.end().tokenIds()).isEqualTo(Bench.expected(young));
            assertThat(second.end().transcript().recomputedSteps()).isPositive();
            assertThat(second.cached()).as("what it takes up again is no gift").isZero();
            rows[sharing ? 1 : 0] = bench.model.rowCount;
            bench.assertNothingHeld();
        }
        assertThat(rows[1]).isLessThan(rows[0] - 30);
    }

    /// Four prompts of six pages in a pool of ten: one at a time, were it not for the five that they share.
    @Test
    void admissionCountsPagesThatAreThereAlready() {
        Bench bench = bench(4, 200, 12);
        List<Integer> common = Bench.ids(1, 80);
        bench.submit(Bench.greedy("first", Bench.join(common, Bench.ids(2, 4)), 6));
        bench.steps(1);
        for (int i = 0; i < 3; i++) {
            bench.submit(Bench.greedy("r" + i, Bench.join(common, Bench.ids(i + 10, 4)), 6));
        }
        bench.steps(1);
        assertThat(bench.scheduler.runningCount()).isEqualTo(4);
        assertThat(bench.pool.freePages()).isEqualTo(12 - 5 - 4);
        bench.runToTheEnd(100);
        assertThat(bench.scheduler.preemptions()).isZero();
        bench.assertNothingHeld();
    }

    @Test
    void idlePagesGiveWayToWhatRuns() {
        Bench bench = bench(1, 64, 8);
        for (int i = 0; i < 20; i++) {
            GenerationRequest request = Bench.greedy("r" + i, Bench.ids(i, 60), 20);
            assertThat(bench.complete(request).end().tokenIds()).isEqualTo(Bench.expected(request));
        }
        assertThat(bench.scheduler.preemptions()).isZero();
        assertThat(bench.pool.index().evictions()).isPositive();
        bench.assertNothingHeld();
    }

    // -------------------------------------------------------------------------------------------------- doubt

    /// Full pages that an aborted request has computed are as good as any; its last, partial page is nobody's.
    @Test
    void ofACancelledRequestFullPagesStayAndThePartialOneGoes() {
        Bench bench = bench(2, 20, 20);
        List<Integer> prompt = Bench.ids(1, 70);
        Bench.Run cancelled = bench.submit(Bench.greedy("c", prompt, 10));
        bench.steps(2);
        cancelled.sequence.cancel();
        bench.steps(1);
        assertThat(cancelled.end().reason()).isEqualTo(FinishReason.CANCELLED);
        assertThat(bench.pool.freePages()).isEqualTo(20);
        assertThat(bench.pool.index().pages()).as("40 tokens were computed").isEqualTo(2);
        GenerationRequest retry = Bench.greedy("retry", prompt, 10);
        Bench.Run run = bench.complete(retry);
        assertThat(run.cached()).isEqualTo(32);
        assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(retry));
        bench.assertNothingHeld();
    }

    /// Cancelled and sent again, over and over, beside others with the same prefix: everyone's tokens stay their own.
    @Test
    void cancelAndRetryHarmsNobody() {
        for (int round = 0; round < 40; round++) {
            var random = new SplittableRandom(round);
            Bench bench = bench(6, 1 + random.nextInt(40), 14 + random.nextInt(20));
            List<Integer> common = Bench.ids(round, 64);
            List<Bench.Run> runs = new ArrayList<>();
            for (int step = 0; step < 200 || !bench.scheduler.idle(); step++) {
                assertThat(step).isLessThan(5_000);
                if (step < 150 && random.nextInt(3) == 0) {
                    List<Integer> prompt = Bench.join(
                            common.subList(0, 16 * random.nextInt(5)), Bench.ids(random.nextInt(4), 1 + random.nextInt(20)));
                    String salt = random.nextInt(4) == 0 ? "other" : "";
                    runs.add(bench.submit(
                            Bench.request("r" + step, prompt, 1 + random.nextInt(30), 0, NEVER, salt)));
                }
                if (!runs.isEmpty() && random.nextInt(4) == 0) {
                    Bench.Run victim = runs.get(random.nextInt(runs.size()));
                    victim.sequence.cancel();
                    if (step < 150) {
                        runs.add(bench.submit(victim.request));
                    }
                }
                bench.scheduler.step();
            }
            assertThat(bench.pool.index().hitTokens()).isPositive();
            for (Bench.Run run : runs) {
                List<Integer> tokens = run.end().tokenIds();
                List<Integer> expected = Bench.expected(run.request);
                assertThat(tokens).as("round %d", round).isEqualTo(expected.subList(0, tokens.size()));
                if (run.end().reason() != FinishReason.CANCELLED) {
                    assertThat(tokens).hasSameSizeAs(expected);
                }
            }
            bench.assertNothingHeld();
        }
    }

    /// Logits that are no numbers put every page behind them in doubt, also those that others share.
    @Test
    void pagesBehindSpoiltLogitsLeaveTheIndex() {
        Bench bench = bench(2, 100, 30);
        List<Integer> prompt = Bench.ids(1, 50);
        bench.complete(Bench.greedy("warm", prompt, 4));
        int spoilt = bench.model.stepCount + 2;
        bench.model.spoilt = step -> step == spoilt;
        GenerationRequest request = Bench.greedy("n", prompt, 8);
        Bench.Run run = bench.submit(request);
        bench.steps(3);
        assertThat(bench.pool.index().pages()).isZero();
        assertThat(bench.pool.freePages()).isEqualTo(30);
        long hits = bench.pool.index().hitTokens();
        bench.runToTheEnd(100);
        assertThat(bench.pool.index().hitTokens()).as("computed from its tokens").isEqualTo(hits);
        assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(request));
        assertThat(run.end().transcript().numericGuard()).isFalse();
        assertThat(run.cached()).isEqualTo(48);
        bench.assertNothingHeld();
    }

    @Test
    void aRequestThatFailsLeavesNothingBehind() {
        Bench bench = bench(2, 100, 30);
        bench.model.spoilt = step -> true;
        Bench.Run failed = bench.complete(Bench.greedy("n", Bench.ids(1, 50), 8));
        assertThat(failed.end().errorCode()).isEqualTo("ENGINE_NUMERIC");
        assertThat(bench.pool.index().pages()).isZero();
        bench.assertNothingHeld();
    }

    @Test
    void aFailedEngineForgetsAllPages() {
        Bench bench = bench(2, 100, 30);
        bench.complete(Bench.greedy("warm", Bench.ids(1, 50), 4));
        bench.submit(Bench.greedy("r", Bench.ids(2, 50), 4));
        bench.steps(1);
        bench.scheduler.failAll("ENGINE_FAILED", "broken");
        assertThat(bench.pool.index().pages()).isZero();
        bench.assertNothingHeld();
    }

    /// The first seed from `seed` on whose completion has all of its tokens.
    private static GenerationRequest unended(String id, int seed, int prompt, int maxNewTokens) {
        GenerationRequest request = Bench.greedy(id, Bench.ids(seed, prompt), maxNewTokens);
        return Bench.expected(request).size() == maxNewTokens ? request : unended(id, seed + 1, prompt, maxNewTokens);
    }
}

package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.FinishReason;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/// Steps that turn out to be wrong afterwards: what came of them is computed again, what came before is kept.
class SchedulerDoubtTest {
    @Test
    void tokensOfStepsInDoubtAreComputedAgainAndNoneBefore() {
        var random = new SplittableRandom(5);
        for (int round = 0; round < 60; round++) {
            try (Bench bench = new Bench(3, 8, 12)) {
                int first = 1 + random.nextInt(20);
                int last = first + random.nextInt(10);
                bench.model.shifted = step -> step + 1 >= first && step + 1 <= last;
                List<Bench.Run> runs = bench.submit(List.of(
                        Bench.greedy("a", Bench.ids(1, 20), 30).withLogprobs(3),
                        Bench.greedy("b", Bench.ids(1, 33), 30).withLogprobs(0),
                        Bench.greedy("c", Bench.ids(2, 5), 30),
                        Bench.greedy("d", Bench.ids(3, 40), 20)));
                bench.steps(last);
                bench.scheduler.distrust(first);
                runs.stream().filter(run -> run.ended() && run.end().transcript().lastStep() < first)
                        .forEach(run -> assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(run.request)));
                bench.runToTheEnd(1_000);
                for (Bench.Run run : runs) {
                    long lastStep = run.end().transcript().lastStep();
                    if (lastStep < first || lastStep > last) {
                        assertThat(run.end().tokenIds()).as("round " + round).isEqualTo(Bench.expected(run.request));
                        assertThat(run.end().logprobs()).isEqualTo(Bench.expectedLogprobs(run.request));
                        assertThat(run.deltas.toString()).isEqualTo(run.end().text());
                    }
                }
                bench.assertNothingHeld();
            }
        }
    }

    @Test
    void scoringThatWasHeardFails() {
        try (Bench bench = new Bench(2, 8, 20)) {
            var ends = new ScoreListener() {
                @Nullable String code;
                int rows;

                @Override
                public void onLogits(int position, float[] logits, int offset) {
                    rows++;
                }

                @Override
                public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                    code = reason + " " + errorCode;
                }
            };
            int[] ids = Bench.ids(1, 40).stream().mapToInt(i -> i).toArray();
            bench.scheduler.submit(new Sequence(
                    "s", ids, 0, 0, Long.MAX_VALUE, "", 0, new ScoringWork(true, Bench.CHECK, ends, () -> {})));
            bench.scheduler.distrust(1);
            bench.steps(2);
            assertThat(ends.rows).isPositive();
            bench.scheduler.distrust(3);
            bench.steps(1);
            bench.scheduler.distrust(1);
            assertThat(ends.code).isEqualTo("FAILED ENGINE_DOUBT");
            assertThat(bench.scheduler.idle()).isTrue();
            bench.assertNothingHeld();
        }
    }
}

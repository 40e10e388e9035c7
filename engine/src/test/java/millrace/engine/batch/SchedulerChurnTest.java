package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
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
import org.junit.jupiter.api.Test;

/// Random arrivals, cancellations, deadlines, spoilt logits and scoring, in a pool that is too small for all of it.
class SchedulerChurnTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);
    private static final int ROUNDS = 40;

    @Test
    void everySequenceEndsOnceAndEveryPageComesBack() {
        var random = new SplittableRandom(77);
        for (int round = 0; round < ROUNDS; round++) {
            run(random.split(), "round " + round + " of seed 77");
        }
    }

    private static void run(SplittableRandom random, String name) {
        int batch = 1 + random.nextInt(8);
        int pages = 5 + random.nextInt(12);
        var model = new FakeModel(batch + 3);
        var clock = new Clock();
        int spoiltStep = random.nextInt(60);
        model.spoilt = step -> step == spoiltStep;
        List<Ends> all = new ArrayList<>();
        try (var pool = new PagePool(LAYOUT, pages * LAYOUT.pageBytes())) {
            var scheduler = new Scheduler(
                    model, pool, clock, new BatchLoop.Limits(batch, 1 + random.nextInt(30), batch + 3, random.nextInt(3)),
                    Bench.checks());
            var sampler = new Sampler(FakeModel.VOCAB);
            List<Sequence> sequences = new ArrayList<>();
            for (int step = 0; step < 400 || !scheduler.idle(); step++) {
                assertThat(step).as(name).isLessThan(20_000);
                clock.now++;
                if (step < 300 && random.nextInt(4) == 0) {
                    Ends ends = new Ends();
                    Sequence sequence = sequence(random, clock, sampler, ends, "s" + step);
                    all.add(ends);
                    sequences.add(sequence);
                    scheduler.submit(sequence);
                }
                if (!sequences.isEmpty() && random.nextInt(25) == 0) {
                    sequences.get(random.nextInt(sequences.size())).cancel();
                }
                scheduler.step();
                assertThat(scheduler.runningCount()).as(name).isLessThanOrEqualTo(batch);
            }
            assertThat(all).as(name).isNotEmpty().allSatisfy(ends -> {
                assertThat(ends.count).isOne();
                assertThat(ends.reason).isNotEqualTo(FinishReason.FAILED);
                assertThat(ends.deltas.toString()).isEqualTo(ends.text);
            });
            assertThat(pool.freePages()).as(name).isEqualTo(pages);
        }
    }

    private static Sequence sequence(SplittableRandom random, Clock clock, Sampler sampler, Ends ends, String id) {
        int[] prompt = random.ints(1 + random.nextInt(40), 0, 60).toArray();
        long deadlineMs = random.nextInt(5) == 0 ? clock.now + random.nextInt(40) : Long.MAX_VALUE;
        int priority = random.nextInt(3);
        if (random.nextInt(5) == 0) {
            var work = new ScoringWork(random.nextBoolean(), Bench.CHECK, ends, () -> {});
            return new Sequence(id, prompt, 0, priority, deadlineMs, "", 0, work);
        }
        int maxNewTokens = 1 + random.nextInt(30);
        var request = new GenerationRequest(
                id, new PromptInput.Text(""), Sampling.GREEDY, maxNewTokens, List.of("ab"), deadlineMs, priority);
        var vocabulary = new Vocabulary(new FakeTokenizer(), Set.of(FakeTokenizer.END));
        var work = new GenerationWork(request, sampler, Bench.CHECK, 0, vocabulary, ends, clock, () -> {});
        return new Sequence(id, prompt, maxNewTokens, priority, deadlineMs, "", clock.nanos(), work);
    }

    private static final class Ends implements GenerationListener, ScoreListener {
        final StringBuilder deltas = new StringBuilder();
        String text = "";
        int count;
        int nextPosition = -1;
        @Nullable FinishReason reason;

        @Override
        public void onDelta(String delta) {
            deltas.append(delta);
        }

        @Override
        public void onEnd(GenerationResult result) {
            text = result.text();
            onEnd(result.reason(), null, null);
        }

        @Override
        public void onLogits(int position, float[] logits, int offset) {
            assertThat(nextPosition == -1 || nextPosition == position).as("position " + position).isTrue();
            nextPosition = position + 1;
        }

        @Override
        public void onEnd(FinishReason end, @Nullable String errorCode, @Nullable String errorMessage) {
            count++;
            reason = end;
        }
    }

    private static final class Clock implements StepClock {
        long now;

        @Override
        public long nanos() {
            return now;
        }

        @Override
        public long epochMs() {
            return now;
        }
    }
}

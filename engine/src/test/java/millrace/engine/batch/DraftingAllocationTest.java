package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import millrace.engine.FinishReason;
import millrace.engine.KvFormat;
import millrace.engine.Speculation;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PagePool;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/// Drafts are planned, checked, fed and chosen without a byte, once the code is compiled.
class DraftingAllocationTest {
    private static final int SEQUENCES = 4;
    private static final int TOKENS = 120;

    /// Page tables that hold so many have room for more.
    private static final int PROMPT = 130;

    private static final int STEPS = 20;
    private static final int VOCAB = 64;

    /// Takes any row for logits.
    private static final class Flat implements StepModel {
        private final float[] logits = new float[16 * VOCAB];

        Flat() {
            for (int i = 0; i < logits.length; i++) {
                logits[i] = i % VOCAB == 7 ? 5 : i % 3;
            }
        }

        @Override
        public int forward(StepPlan plan) {
            return plan.logitRowCount();
        }

        @Override
        public boolean drafts() {
            return true;
        }

        @Override
        public int draft(StepPlan plan, int[] sources, boolean further) {
            return plan.logitRowCount();
        }

        @Override
        public float[] logits() {
            return logits;
        }

        @Override
        public int vocabSize() {
            return VOCAB;
        }

        @Override
        public float[] hidden() {
            return logits;
        }

        @Override
        public int hiddenSize() {
            return VOCAB;
        }
    }

    /// Drafts and chooses token 7, but every third time something else.
    private static final class Sevens implements Work {
        private int count;

        @Override
        public StepPlan.Logits wanted() {
            return StepPlan.Logits.LAST;
        }

        @Override
        public Outcome accept(Sequence sequence, int position, float[] logits, int offset) {
            sequence.append(count++ % 3 == 0 ? 5 : 7);
            return sequence.generated() == TOKENS ? Outcome.LENGTH : Outcome.CONTINUE;
        }

        @Override
        public int draft(Sequence sequence, int drafts, float[] logits, int offset, int known) {
            return known;
        }

        @Override
        public boolean restart(Sequence sequence) {
            return true;
        }

        @Override
        public void end(
                Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {}
    }

    @Test
    void stepsWithDraftsShouldAllocateNothing() {
        var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        KvLayout layout = KvLayout.grouped(KvFormat.F32, 1, 1, 16).withDraftLayer();
        try (var pool = new PagePool(layout, 100 * layout.pageBytes())) {
            var limits = new BatchLoop.Limits(SEQUENCES, SEQUENCES * PROMPT, 16, 0, new Speculation(Speculation.Mode.AUTO, 3));
            var scheduler = new Scheduler(new Flat(), pool, StepClock.system(), limits, Bench.checks());
            long least = Long.MAX_VALUE;
            for (int round = 0; round < 2_000 && least > 0; round++) {
                for (int i = 0; i < SEQUENCES; i++) {
                    scheduler.submit(new Sequence(
                            "s", new int[PROMPT], TOKENS, 0, Long.MAX_VALUE, "", 0, new Sevens()));
                }
                scheduler.step();
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int step = 0; step < STEPS; step++) {
                    scheduler.step();
                }
                least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
                assertThat(scheduler.runningCount()).isEqualTo(SEQUENCES);
                while (!scheduler.idle()) {
                    scheduler.step();
                }
            }
            assertThat(least).as("bytes in %d steps", STEPS).isZero();
            assertThat(scheduler.drafts().accepted().getFirst()).isPositive();
        }
    }
}

package millrace.engine;

import java.util.concurrent.CountDownLatch;
import millrace.engine.batch.StepModel;
import millrace.engine.batch.StepModelAround;
import millrace.engine.batch.StepPlan;
import org.jspecify.annotations.Nullable;

/// Lets the steps of a real engine hang, fail, run out of memory or give NaN. Tests only: no configuration leads here.
public final class EngineFaults {
    /// What happens to the next step.
    public enum Kind {
        /// It never ends, unless [#letGo].
        HANG,
        /// A kernel throws.
        CRASH,
        /// The heap is exhausted.
        OUT_OF_MEMORY
    }

    private final CountDownLatch released = new CountDownLatch(1);
    private volatile @Nullable Kind next;
    private volatile long after;
    private volatile long spoiltAfter = -1;

    public EngineFaults() {}

    /// A real engine under this object's faults.
    public Engine open(EngineConfig config) {
        return Engine.openAround(config, Around::new);
    }

    /// After so many more steps.
    public void strike(Kind kind, int steps) {
        after = steps;
        next = kind;
    }

    /// The first logit is NaN, once, after so many more steps that give logits.
    public void spoil(int steps) {
        spoiltAfter = steps;
    }

    /// Whether what [#spoil] asked for has happened.
    public boolean spoilt() {
        return spoiltAfter < 0;
    }

    /// Ends a step that hangs.
    public void letGo() {
        released.countDown();
    }

    private void step() {
        Kind kind = next;
        if (kind == null || after-- > 0) {
            return;
        }
        next = null;
        switch (kind) {
            case HANG -> {
                boolean over = false;
                while (!over) {
                    try {
                        released.await();
                        over = true;
                    } catch (InterruptedException e) {
                        // As a kernel would: nothing interrupts it.
                    }
                }
            }
            case CRASH -> throw new IllegalStateException("a kernel failed");
            case OUT_OF_MEMORY -> throw new OutOfMemoryError("injected");
        }
    }

    /// The model, with something before each of its steps.
    private final class Around extends StepModelAround {
        private final StepModel model;

        Around(StepModel model) {
            super(model);
            this.model = model;
        }

        @Override
        public int forward(StepPlan plan) {
            step();
            int rows = model.forward(plan);
            if (rows > 0 && spoiltAfter >= 0 && spoiltAfter-- == 0) {
                model.logits()[0] = Float.NaN;
            }
            return rows;
        }
    }
}

package millrace.engine.batch;

import java.util.Objects;
import millrace.engine.FinishReason;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// Hands each sequence of a step its logits, seals what is full, and ends or has computed again whom that concerns.
///
/// The pages of those that the draft layer is fed with are whole only after that: then they are sealed, and those end that are
/// done.
final class Delivery {
    private static final String NUMERIC = "ENGINE_NUMERIC";
    private static final int MOST_NUMERIC_FAILURES = 3;

    private final StepModel model;
    private final Roster roster;
    private final IntegrityLedger ledger;
    private final @Nullable Drafting drafting;
    private final StepPlan plan;
    private final Sequence[] planned;
    private final Runnable inspect;
    private final Runnable finish = this::finish;
    private long step;

    /// @param plan of the step, emptied when it was handed out
    /// @param planned the sequence of each segment
    /// @param drafting null where no tokens are drafted
    /// @param inspect looks at all weights and pages
    Delivery(
            StepModel model,
            Roster roster,
            IntegrityLedger ledger,
            StepPlan plan,
            Sequence[] planned,
            @Nullable Drafting drafting,
            Runnable inspect) {
        this.model = model;
        this.roster = roster;
        this.ledger = ledger;
        this.plan = plan;
        this.planned = planned;
        this.drafting = drafting;
        this.inspect = inspect;
    }

    /// Hands out the logits of a step.
    ///
    /// @param number of the step
    void deliver(long number) {
        step = number;
        float[] logits = model.logits();
        int row = 0;
        int segments = plan.segmentCount();
        for (int s = 0; s < segments; s++) {
            Sequence sequence = planned[s];
            int rows = plan.rows(s);
            int first = switch (plan.wanted(s)) {
                case NONE -> rows;
                case LAST -> rows - 1;
                case ALL -> 0;
            };
            // Who comes before it may have had everything looked at: if its pages were damaged it waits already.
            if (sequence.pages == plan.pages(s)) {
                int drafts = sequence.decoding() ? rows - 1 : 0;
                sequence.computed += rows - drafts;
                sequence.steps++;
                sequence.step = step;
                sequence.maxBatch = Math.max(sequence.maxBatch, segments);
                deliver(sequence, plan.startPosition(s) + first, rows - first, drafts, logits, row);
            }
            row += rows - first;
        }
        if (drafting != null) {
            drafting.feed(plan, planned, finish);
        }
        plan.clear();
    }

    /// @param drafts how many of the rows, from the second on, are of drafts: each counts if all before it were right
    private void deliver(Sequence sequence, int position, int rows, int drafts, float[] logits, int row) {
        if (rows > 0) {
            sequence.lastDelivery = sequence.step;
        }
        int offered = drafts;
        sequence.drafts = 0;
        if (drafting != null) {
            drafting.offer(offered);
        }
        for (int i = 0; i < rows; i++) {
            int draft = i < offered ? sequence.tokens()[sequence.length()] : Choice.NONE;
            Work.Outcome outcome = sequence.work.accept(sequence, position + i, logits, (row + i) * model.vocabSize());
            switch (outcome) {
                case CONTINUE -> sequence.delivered = position + i + 1;
                case STOP, LENGTH -> {
                    judge(sequence, i, draft);
                    done(sequence, outcome == Work.Outcome.STOP ? FinishReason.STOP : FinishReason.LENGTH);
                    return;
                }
                case FAILED -> {
                    roster.end(sequence, FinishReason.FAILED, sequence.code, sequence.problem);
                    return;
                }
                case UNSOUND -> {
                    unsound(sequence, position + i);
                    return;
                }
            }
            if (i < offered) {
                if (!judge(sequence, i, draft) || sequence.cancelled()) {
                    break;
                }
                sequence.computed++;
            }
        }
        if (drafting == null || sequence.undrafted) {
            seal(sequence);
        }
    }

    /// @return whether the token that was chosen is the draft
    private boolean judge(Sequence sequence, int position, int draft) {
        if (drafting == null || draft == Choice.NONE) {
            return false;
        }
        boolean right = sequence.tokens()[sequence.length() - 1] == draft;
        drafting.judge(position, right);
        return right;
    }

    private void done(Sequence sequence, FinishReason reason) {
        if (drafting == null || sequence.undrafted) {
            seal(sequence);
            roster.end(sequence, reason, null, null);
        } else {
            sequence.ending = reason;
        }
    }

    /// The draft layer is fed.
    private void finish() {
        for (int s = 0; s < plan.segmentCount(); s++) {
            Sequence sequence = planned[s];
            if (sequence.pages == plan.pages(s)) {
                seal(sequence);
            }
            FinishReason reason = sequence.ending;
            // Who gave up its pages since, and lost nothing, waits.
            if (reason != null && (sequence.pages == plan.pages(s) || roster.waiting.remove(sequence))) {
                sequence.ending = null;
                roster.end(sequence, reason, null, null);
            }
        }
    }

    private void seal(Sequence sequence) {
        PageTable pages = Objects.requireNonNull(sequence.pages);
        pages.seal(sequence.names(), sequence.tokens(), sequence.complete(drafting != null));
    }

    /// The first time the sequence is computed again from its tokens, which repairs a fault that has passed; the second time
    /// all weights and pages are looked at before; the third time it fails. A token is never chosen from such logits, and no
    /// page behind them is shared any further.
    private void unsound(Sequence sequence, int position) {
        Objects.requireNonNull(sequence.pages).forget();
        sequence.numericGuard = false;
        sequence.numericFailures++;
        boolean repairable = sequence.numericFailures < MOST_NUMERIC_FAILURES;
        ledger.post(
                IntegrityEvent.Kind.COMPUTE,
                repairable ? IntegrityEvent.Result.REPAIRED : IntegrityEvent.Result.REFUSED,
                NUMERIC,
                "check=" + sequence.problem + " position=" + position + " step=" + step + " time=" + sequence.numericFailures);
        if (!repairable) {
            roster.end(sequence, FinishReason.FAILED, NUMERIC, "logits at position " + position
                    + ": expected finite numbers within the bound of the weights, not all equal, got \"" + sequence.problem
                    + "\", also when computed again; check the model files and the memory of this machine");
            return;
        }
        roster.repairs++;
        roster.preempt(sequence);
        if (sequence.numericFailures > 1) {
            inspect.run();
        }
    }
}

package millrace.engine.batch;

import millrace.engine.FinishReason;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;

/// Hands out the logits of given tokens, of the last position or of all, and generates nothing.
final class ScoringWork implements Work {
    private static final System.Logger LOG = System.getLogger(ScoringWork.class.getName());

    private final boolean all;
    private final boolean drafts;
    private final LogitsCheck check;
    private final ScoreListener listener;
    private final Runnable onEnd;
    private boolean heard;

    /// @param drafts whether the draft layer's logits are handed out instead of the model's: of every position but the last
    /// @param onEnd run before the listener hears of the end
    ScoringWork(boolean all, boolean drafts, LogitsCheck check, ScoreListener listener, Runnable onEnd) {
        this.all = all;
        this.drafts = drafts;
        this.check = check;
        this.listener = listener;
        this.onEnd = onEnd;
    }

    /// Of the model's own logits.
    ScoringWork(boolean all, LogitsCheck check, ScoreListener listener, Runnable onEnd) {
        this(all, false, check, listener, onEnd);
    }

    @Override
    public StepPlan.Logits wanted() {
        return all || drafts ? StepPlan.Logits.ALL : StepPlan.Logits.LAST;
    }

    @Override
    public Outcome accept(Sequence sequence, int position, float[] logits, int offset) {
        String problem = check.problem(logits, offset, false);
        if (problem != null) {
            sequence.problem = problem;
            return Outcome.UNSOUND;
        }
        if (!drafts) {
            hand(sequence, position, logits, offset);
        }
        return position == sequence.length() - 1 ? Outcome.LENGTH : Outcome.CONTINUE;
    }

    @Override
    public boolean hearsDrafts() {
        return drafts;
    }

    @Override
    public void acceptDraft(Sequence sequence, int position, float[] logits, int offset) {
        if (all || position == sequence.length() - 2) {
            hand(sequence, position, logits, offset);
        }
    }

    private void hand(Sequence sequence, int position, float[] logits, int offset) {
        heard = true;
        try {
            listener.onLogits(position, logits, offset);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "listener of scoring " + sequence.id + " failed; cancelling it", e);
            sequence.cancel();
        }
    }

    /// Logits that were handed out cannot be taken back.
    @Override
    public boolean restart(Sequence sequence) {
        return !heard;
    }

    @Override
    public void end(Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
        onEnd.run();
        try {
            listener.onEnd(reason, errorCode, errorMessage);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "listener of scoring " + sequence.id + " failed", e);
        }
    }
}

package millrace.engine.batch;

import millrace.engine.FinishReason;
import millrace.engine.ScoreListener;
import org.jspecify.annotations.Nullable;

/// Hands out the logits of given tokens, of the last position or of all, and generates nothing.
final class ScoringWork implements Work {
    private static final System.Logger LOG = System.getLogger(ScoringWork.class.getName());

    private final boolean all;
    private final LogitsCheck check;
    private final ScoreListener listener;
    private final Runnable onEnd;
    private boolean heard;

    /// @param onEnd run before the listener hears of the end
    ScoringWork(boolean all, LogitsCheck check, ScoreListener listener, Runnable onEnd) {
        this.all = all;
        this.check = check;
        this.listener = listener;
        this.onEnd = onEnd;
    }

    @Override
    public StepPlan.Logits wanted() {
        return all ? StepPlan.Logits.ALL : StepPlan.Logits.LAST;
    }

    @Override
    public Outcome accept(Sequence sequence, int position, float[] logits, int offset) {
        String problem = check.problem(logits, offset, false);
        if (problem != null) {
            sequence.problem = problem;
            return Outcome.UNSOUND;
        }
        heard = true;
        try {
            listener.onLogits(position, logits, offset);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "listener of scoring " + sequence.id + " failed; cancelling it", e);
            sequence.cancel();
        }
        return position == sequence.length() - 1 ? Outcome.LENGTH : Outcome.CONTINUE;
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

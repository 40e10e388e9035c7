package millrace.engine.batch;

import millrace.engine.FinishReason;
import millrace.engine.Sampling;
import org.jspecify.annotations.Nullable;

/// What becomes of a sequence's logits. The scheduler decides when a sequence runs, its work decides what for.
///
/// All methods are called on the engine's thread and must return at once.
interface Work {
    /// Which of the rows that have not been delivered yet are wanted: `LAST` (of all tokens) or `ALL`.
    StepPlan.Logits wanted();

    /// How each row's token is chosen, if nothing but that token is made of a row: then it may be drawn where the row lies, and
    /// [LogitFacts#drawn] says it. Null for all others.
    default @Nullable Sampling drawn() {
        return null;
    }

    /// Takes the logits of one position, `logits[offset … offset + vocabSize)`, valid during the call.
    Outcome accept(Sequence sequence, int position, float[] logits, int offset);

    /// The token that would be chosen from these logits if they were the model's and the drafts before it were tokens of the
    /// sequence.
    ///
    /// @param drafts how many there are, behind the sequence's own tokens
    /// @param known the largest of the logits
    /// @return negative if there is none
    default int draft(Sequence sequence, int drafts, float[] logits, int offset, int known) {
        return Choice.NONE;
    }

    /// Whether it takes the logits of the draft layer, behind each position whose logits it takes but the last.
    default boolean hearsDrafts() {
        return false;
    }

    /// Takes the draft layer's logits of one position, of the token two behind it; valid during the call.
    default void acceptDraft(Sequence sequence, int position, float[] logits, int offset) {}

    /// Tokens were dropped from the end of the sequence, or positions are to be delivered again: what was made of them so
    /// far is void.
    ///
    /// @return false if that cannot be taken back; the sequence then fails
    boolean restart(Sequence sequence);

    /// The sequence has ended, for a reason that is not the work's own if `outcome` of [#accept] was not `DONE`.
    void end(Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage);

    /// Answer to the logits of one position.
    enum Outcome {
        /// More logits are wanted; for `LAST`, a token was appended to the sequence.
        CONTINUE,
        /// A stop token or stop string was reached.
        STOP,
        /// The most tokens that were asked for are there; scoring: the last row was delivered.
        LENGTH,
        /// The logits cannot be right: [Sequence#problem] says why; nothing was made of them.
        UNSOUND,
        /// There is no way on: [Sequence#code] and [Sequence#problem] say why; nothing was made of them.
        FAILED
    }
}

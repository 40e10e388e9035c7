package millrace.engine;

import org.jspecify.annotations.Nullable;

/// Receives the logits of given tokens on the engine's thread; must return at once.
public interface ScoreListener {
    /// Logits after the token at `position`: `logits[offset … offset + vocabSize)`. The array is the engine's own and
    /// is overwritten by the next step; positions come in order, each once.
    void onLogits(int position, float[] logits, int offset);

    /// Called once, when all wanted positions were delivered (`LENGTH`) or the scoring ended for another reason.
    void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage);
}

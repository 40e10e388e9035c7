package millrace.engine;

/// Handle of one submitted prompt.
public interface Generation {
    /// Ends the generation at the next step with `FinishReason.CANCELLED`; does nothing when it has ended.
    void cancel();
}

package millrace.engine;

/// Why a generation ended.
public enum FinishReason {
    /// A stop token or a stop string.
    STOP,
    /// `maxNewTokens` were generated.
    LENGTH,
    /// The request's deadline passed.
    DEADLINE,
    /// The caller cancelled it.
    CANCELLED,
    /// The engine could not finish it; `GenerationResult.errorCode` says why.
    FAILED
}

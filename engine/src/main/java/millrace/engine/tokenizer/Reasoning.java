package millrace.engine.tokenizer;

/// Whether an answer begins with reasoning, which `</think>` ends.
public enum Reasoning {
    /// It does not: the format has none, or the prompt has switched it off.
    NONE,
    /// The model opens it with `<think>`, or answers at once.
    POSSIBLE,
    /// The prompt has opened it.
    OPEN;

    public static final String OPENING = "<think>";
    public static final String CLOSING = "</think>";
}

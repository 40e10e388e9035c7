package millrace.engine;

/// A piece of a [Reply] as it grows. Texts are appended to those of their kind; a call comes whole.
public sealed interface ReplyPart {
    /// More of what is said to the user.
    record Content(String text) implements ReplyPart {}

    /// More of the reasoning.
    record Reasoning(String text) implements ReplyPart {}

    /// The next call.
    record Call(ToolCall call) implements ReplyPart {}
}

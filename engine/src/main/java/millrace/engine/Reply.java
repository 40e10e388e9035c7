package millrace.engine;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// An assistant's turn, as the chat format reads a completion's text.
///
/// @param content what is said to the user: the text without markup, reasoning and calls; empty without any
/// @param reasoning what was thought before; null without any
/// @param toolCalls the calls that the model made, in order
public record Reply(String content, @Nullable String reasoning, List<ToolCall> toolCalls) {
    public Reply {
        toolCalls = List.copyOf(toolCalls);
    }
}

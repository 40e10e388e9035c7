package millrace.engine;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// One turn of a conversation; `role` is system, user, assistant or tool.
public record ChatMessage(
        String role,
        String content,
        @Nullable String reasoningContent,
        @Nullable String name,
        @Nullable String toolCallId,
        List<ToolCall> toolCalls) {

    public ChatMessage {
        toolCalls = List.copyOf(toolCalls);
    }

    public static ChatMessage of(String role, String content) {
        return new ChatMessage(role, content, null, null, null, List.of());
    }
}

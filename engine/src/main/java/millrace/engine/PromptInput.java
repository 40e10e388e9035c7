package millrace.engine;

import java.util.List;

/// What is to be completed: exactly one of a conversation, a raw text, or token ids.
public sealed interface PromptInput {
    record Messages(List<ChatMessage> messages, ChatOptions options) implements PromptInput {
        public Messages {
            messages = List.copyOf(messages);
        }
    }

    /// Completed as it stands; no special token can be formed by it.
    record Text(String text) implements PromptInput {}

    record TokenIds(List<Integer> ids) implements PromptInput {
        public TokenIds {
            ids = List.copyOf(ids);
        }
    }
}

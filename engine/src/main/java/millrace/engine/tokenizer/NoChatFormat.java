package millrace.engine.tokenizer;

import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.InvalidRequestException;
import millrace.engine.ReplyReader;

/// A model without a known chat format: it serves texts and token ids, and refuses conversations.
///
/// @param reason what was found instead of a known template
record NoChatFormat(String reason) implements ChatFormat {
    static final String ID = "none";

    @Override
    public String id() {
        return ID;
    }

    @Override
    public Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer) {
        throw new InvalidRequestException(
                "TPL_UNKNOWN",
                ("messages: expected a model with a known chat format, got %s;"
                                + " set the engine's chatFormat to one of %s, or send a text")
                        .formatted(reason, String.join(", ", ChatFormats.ids())));
    }

    @Override
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        return ReplyReader.plain();
    }

    @Override
    public List<String> markers() {
        return List.of();
    }
}

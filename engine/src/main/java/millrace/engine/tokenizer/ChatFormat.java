package millrace.engine.tokenizer;

import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.ReplyReader;
import millrace.engine.reply.CallSyntax;
import org.jspecify.annotations.Nullable;

/// How a generation of models wants a conversation written; built in as code, no template is ever executed.
public sealed interface ChatFormat
        permits GlmFormat, KimiFormat, ChatMlFormat, Llama3Format, DeepSeekFormat, NoChatFormat {
    /// The stable name, for example `glm-4.5`.
    String id();

    /// Writes a conversation. Markers become single ids; the text between them, the messages' and the format's, is
    /// encoded in one run with added tokens disabled, so that no message can form a marker.
    ///
    /// @throws millrace.engine.InvalidRequestException PROMPT_EMPTY, ROLE_UNKNOWN, TOOLS_INVALID,
    ///         PROMPT_NOT_UTF8, TPL_UNKNOWN, TPL_TOKEN_MISSING
    Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer);

    /// A reader for what answers such a conversation.
    ReplyReader replies(List<ChatMessage> messages, ChatOptions options);

    /// How calls of tools are written exactly; null where the format has none.
    default @Nullable CallSyntax calls() {
        return null;
    }

    /// What an answer to such a conversation begins with.
    default Reasoning reasoning(ChatOptions options) {
        return Reasoning.NONE;
    }

    /// The markers without which no turn can be written; the tokenizer must have them all.
    List<String> markers();

    /// SHA-256 of the format's id and version, 64 hexadecimal digits.
    default String digest() {
        return Hashes.sha256("millrace chat format " + id() + " v" + ChatFormats.VERSION);
    }
}

package millrace.engine;

import java.nio.file.Path;
import java.util.List;
import millrace.engine.reply.MarkupReader;
import millrace.engine.tokenizer.ChatFormat;
import millrace.engine.tokenizer.ChatFormats;
import millrace.engine.tokenizer.Tokenizer;
import millrace.engine.tokenizer.Tokenizers;
import millrace.engine.weights.ModelFiles;
import org.jspecify.annotations.Nullable;

/// A checkpoint's tokenizer and chat format without its weights: text to token ids and back.
public final class TextCodec {
    private final Tokenizer tokenizer;
    private final ChatFormat format;

    TextCodec(Tokenizer tokenizer, ChatFormat format) {
        this.tokenizer = tokenizer;
        this.format = format;
    }

    /// Reads the tokenizer's files of a model directory.
    ///
    /// @param chatFormat id of a chat format, or null to detect it
    public static TextCodec open(Path model, @Nullable String chatFormat) {
        try (ModelFiles files = ModelFiles.open(model)) {
            return read(files, chatFormat);
        }
    }

    static TextCodec read(ModelFiles files, @Nullable String chatFormat) {
        Tokenizer tokenizer = Tokenizers.load(files);
        return new TextCodec(tokenizer, ChatFormats.detect(chatFormat, files, tokenizer));
    }

    /// Reads what is there: without a tokenizer, token ids pass and text is refused.
    static TextCodec readIfPresent(ModelFiles files, @Nullable String chatFormat) {
        Tokenizer tokenizer = Tokenizers.loadIfPresent(files);
        ChatFormat format = tokenizer.vocabSize() == 0
                ? ChatFormats.none("a checkpoint without a tokenizer")
                : ChatFormats.detect(chatFormat, files, tokenizer);
        return new TextCodec(tokenizer, format);
    }

    /// @param specials whether text that spells a special token becomes that token
    public int[] encode(String text, boolean specials) {
        return tokenizer.encode(text, specials);
    }

    /// The ids' text, special tokens as their names.
    ///
    /// @throws InvalidRequestException TOKEN_ID_RANGE for an id that the tokenizer does not have
    public String decode(int[] ids) {
        for (int i = 0; i < ids.length; i++) {
            if (ids[i] < 0 || ids[i] >= tokenizer.vocabSize()) {
                throw new InvalidRequestException("TOKEN_ID_RANGE", "token id " + i + ": expected 0 to "
                        + (tokenizer.vocabSize() - 1) + ", got " + ids[i] + "; decode with the tokenizer that encoded");
            }
        }
        return tokenizer.decode(ids);
    }

    /// A conversation as the model sees it.
    public Rendering render(List<ChatMessage> messages, ChatOptions options) {
        var rendered = format.render(messages, options, tokenizer);
        return new Rendering(rendered.text(), rendered.ids());
    }

    /// A reader for what answers such a conversation.
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        return format.replies(messages, options);
    }

    /// A reader for an answer whose calls were held to their form.
    ReplyReader calls(List<ChatMessage> messages, ChatOptions options) {
        ReplyReader reader = format.replies(messages, options);
        return reader instanceof MarkupReader markup ? markup.held() : reader;
    }

    /// @param ids not to be changed
    public record Rendering(String text, int[] ids) {}

    public String chatFormat() {
        return format.id();
    }

    Tokenizer tokenizer() {
        return tokenizer;
    }

    ChatFormat format() {
        return format;
    }
}

package millrace.engine.tokenizer;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import millrace.engine.InvalidRequestException;

/// Collects a prompt as text and ids at once.
///
/// Text of the format may contain markers, which become single ids; text of a message never does. What lies between
/// two markers is encoded in one run, whoever it came from, as Hugging Face splits it.
final class PromptWriter {
    private final Tokenizer tokenizer;
    private final String formatId;
    private final AddedTokens markers;
    private final StringBuilder text = new StringBuilder();
    private final StringBuilder run = new StringBuilder();
    private final Ids ids = new Ids();

    PromptWriter(Tokenizer tokenizer, ChatFormat format) {
        this.tokenizer = tokenizer;
        this.formatId = format.id();
        List<AddedToken> added = new ArrayList<>();
        for (Map.Entry<String, Integer> entry : tokenizer.addedTokens().entrySet()) {
            added.add(AddedToken.special(entry.getValue(), entry.getKey()));
        }
        markers = new AddedTokens(added);
    }

    /// A marker of a turn; the tokenizer must have it.
    PromptWriter marker(String marker) {
        Integer id = tokenizer.special(marker);
        if (id == null) {
            throw new InvalidRequestException("TPL_TOKEN_MISSING", missing(formatId, marker));
        }
        text.append(marker);
        endRun();
        ids.add(id);
        return this;
    }

    /// Text of the format; the added tokens in it that the tokenizer has become ids, others stay text.
    PromptWriter format(String literal) {
        text.append(literal);
        for (AddedTokens.Part part : markers.split(literal)) {
            if (part.token() == null) {
                run.append(literal, part.from(), part.to());
            } else {
                endRun();
                ids.add(part.token().id());
            }
        }
        return this;
    }

    /// Text of a message; no added token is recognised in it.
    PromptWriter content(String content) {
        text.append(content);
        run.append(content);
        return this;
    }

    Rendered finish() {
        endRun();
        return new Rendered(text.toString(), ids.toArray());
    }

    private void endRun() {
        if (!run.isEmpty()) {
            ids.addAll(tokenizer.encode(run.toString(), false));
            run.setLength(0);
        }
    }

    static String missing(String formatId, String marker) {
        return ("chat format \"%s\": expected the tokenizer to have the marker \"%s\", got none;"
                        + " choose another chatFormat or the tokenizer of the same release")
                .formatted(formatId, marker);
    }
}

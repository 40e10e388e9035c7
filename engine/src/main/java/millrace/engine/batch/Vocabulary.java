package millrace.engine.batch;

import java.util.Set;
import millrace.engine.reply.CallSyntax;
import millrace.engine.tokenizer.Tokenizer;
import org.jspecify.annotations.Nullable;

/// What the tokens of a model mean to a completion.
///
/// @param stopTokens ids that end a completion
/// @param calls how the chat format writes calls of tools; null if it has none
public record Vocabulary(Tokenizer tokenizer, Set<Integer> stopTokens, @Nullable CallSyntax calls) {
    public Vocabulary {
        stopTokens = Set.copyOf(stopTokens);
    }

    /// Of a chat format without calls.
    public Vocabulary(Tokenizer tokenizer, Set<Integer> stopTokens) {
        this(tokenizer, stopTokens, null);
    }

    boolean ends(int token) {
        return stopTokens.contains(token);
    }
}

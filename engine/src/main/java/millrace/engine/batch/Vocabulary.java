package millrace.engine.batch;

import java.util.Set;
import millrace.engine.tokenizer.Tokenizer;

/// What the tokens of a model mean to a completion.
///
/// @param stopTokens ids that end a completion
public record Vocabulary(Tokenizer tokenizer, Set<Integer> stopTokens) {
    public Vocabulary {
        stopTokens = Set.copyOf(stopTokens);
    }

    boolean ends(int token) {
        return stopTokens.contains(token);
    }
}

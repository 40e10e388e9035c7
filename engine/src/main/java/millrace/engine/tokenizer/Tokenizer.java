package millrace.engine.tokenizer;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// A byte-level tokenizer: text to ids and ids to bytes; immutable, so any number of threads may share it.
public interface Tokenizer {
    /// The ids of a text.
    ///
    /// @param specials true: added tokens in the text become their ids, as Hugging Face does with a rendered prompt;
    ///        false: they are ordinary characters, so that no text can form an added token
    /// @throws millrace.engine.InvalidRequestException PROMPT_NOT_UTF8 for a lone surrogate, PROMPT_TOO_COMPLEX where
    ///         the work on an unusual split pattern would be out of proportion
    int[] encode(String text, boolean specials);

    /// The text of ids, special tokens as their own text, ill-formed UTF-8 as U+FFFD.
    String decode(int[] ids);

    /// The bytes that a token adds to the text that a user sees: none for special tokens and for ids without a token.
    byte[] bytes(int id);

    /// One more than the largest id; the model's vocabulary may be padded beyond it.
    int vocabSize();

    /// The id of an added token, or null.
    @Nullable Integer special(String text);

    /// All added tokens with their ids, special or not.
    Map<String, Integer> addedTokens();

    /// Whether an id is an added token that carries no text to the user.
    boolean isSpecial(int id);

    /// The ids that end a text according to the tokenizer's own files, ascending; the model's configuration has more.
    List<Integer> eosTokenIds();

    /// SHA-256 of the tokenizer's file, 64 hexadecimal digits.
    String digest();

    /// `tokenizer.json` or `tiktoken.model`: the file that it was read from.
    String kind();
}

package millrace.engine.tokenizer;

import java.util.List;
import java.util.Map;
import millrace.engine.InvalidRequestException;
import org.jspecify.annotations.Nullable;

/// Stands for the tokenizer of a checkpoint that has none: token ids pass, text is refused.
record NoTokenizer() implements Tokenizer {
    @Override
    public int[] encode(String text, boolean specials) {
        throw new InvalidRequestException(
                "TOK_MISSING",
                "prompt: expected token ids, as this model has no tokenizer, got text; copy the tokenizer of the same "
                        + "release into the model's directory, or send ids");
    }

    @Override
    public String decode(int[] ids) {
        return "";
    }

    @Override
    public byte[] bytes(int id) {
        return new byte[0];
    }

    @Override
    public int vocabSize() {
        return 0;
    }

    @Override
    public @Nullable Integer special(String text) {
        return null;
    }

    @Override
    public Map<String, Integer> addedTokens() {
        return Map.of();
    }

    @Override
    public boolean isSpecial(int id) {
        return false;
    }

    @Override
    public List<Integer> eosTokenIds() {
        return List.of();
    }

    @Override
    public String digest() {
        return Hashes.sha256("");
    }

    @Override
    public String kind() {
        return "none";
    }
}

package millrace.engine.tokenizer;

import millrace.engine.InvalidModelException;
import millrace.engine.weights.ModelFiles;

/// Reads a checkpoint's tokenizer.
public final class Tokenizers {
    private Tokenizers() {}

    /// Reads a checkpoint's tokenizer, see [#load(TokenizerFiles)].
    public static Tokenizer load(ModelFiles files) {
        return load((TokenizerFiles) files::readIfPresent);
    }

    /// The tokenizer of a checkpoint that may lack one; it then takes token ids and refuses text with TOK_MISSING.
    public static Tokenizer loadIfPresent(ModelFiles files) {
        boolean present =
                files.readIfPresent(TokenizerJson.FILE) != null || files.readIfPresent(TiktokenModel.FILE) != null;
        return present ? load(files) : new NoTokenizer();
    }

    /// Reads tokenizer.json or tiktoken.model, and tokenizer_config.json if there. Of a checkpoint that has both,
    /// tokenizer.json counts.
    ///
    /// @throws InvalidModelException TOK_MISSING, TOK_LIMIT, TOK_INVALID, TOK_REGEX, TOK_UNSUPPORTED
    public static Tokenizer load(TokenizerFiles files) {
        byte[] json = files.readIfPresent(TokenizerJson.FILE);
        byte[] tiktoken = json == null ? files.readIfPresent(TiktokenModel.FILE) : null;
        TokenizerConfig config = TokenizerConfig.read(files.readIfPresent(TokenizerConfig.FILE));
        if (json != null) {
            return TokenizerJson.read(json, config);
        }
        if (tiktoken != null) {
            return TiktokenModel.read(tiktoken, config);
        }
        throw new InvalidModelException(
                "TOK_MISSING",
                ("tokenizer: expected %s or %s among the model files, got neither;"
                                + " copy the tokenizer of the same release")
                        .formatted(TokenizerJson.FILE, TiktokenModel.FILE));
    }
}

package millrace.engine.tokenizer;

/// The text of a growing sequence of tokens, piece by piece: the pieces together are exactly the text of the whole.
///
/// A character whose bytes are split over tokens is held back until it is complete, so no piece ever has to be taken
/// back. Ill-formed bytes become one U+FFFD per maximal ill-formed subpart (Unicode 3.9, table 3-8), as
/// Hugging Face's decoders do it.
public final class IncrementalDecoder {
    private final Tokenizer tokenizer;
    private final Utf8 utf8 = new Utf8();

    public IncrementalDecoder(Tokenizer tokenizer) {
        this.tokenizer = tokenizer;
    }

    /// The text that has become certain with this token; often empty. Special tokens have no text.
    public String append(int id) {
        StringBuilder text = new StringBuilder();
        utf8.decode(tokenizer.bytes(id), text);
        return text.toString();
    }

    /// The text of what was held back: U+FFFD if the sequence ended inside a character, else empty.
    public String flush() {
        StringBuilder text = new StringBuilder();
        utf8.end(text);
        return text.toString();
    }
}

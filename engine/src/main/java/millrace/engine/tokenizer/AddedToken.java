package millrace.engine.tokenizer;

/// A token that is matched on the text itself, before anything else.
///
/// @param special whether it carries no text to the user
/// @param normalized whether it is matched after normalisation
record AddedToken(
        int id,
        String content,
        boolean special,
        boolean singleWord,
        boolean lstrip,
        boolean rstrip,
        boolean normalized) {

    static AddedToken special(int id, String content) {
        return new AddedToken(id, content, true, false, false, false, false);
    }
}

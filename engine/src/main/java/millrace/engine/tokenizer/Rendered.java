package millrace.engine.tokenizer;

/// A conversation in a model's own form.
///
/// @param text the prompt as one string, markers as their text
/// @param ids the prompt's token ids; not to be changed
public record Rendered(String text, int[] ids) {}

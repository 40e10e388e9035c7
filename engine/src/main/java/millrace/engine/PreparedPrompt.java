package millrace.engine;

/// A validated request with its prompt as the model will see it.
///
/// @param text the prompt after the chat format was applied (token ids given by the caller: their decoded text)
/// @param ids the prompt's token ids; not to be changed
public record PreparedPrompt(GenerationRequest request, String text, int[] ids) {}

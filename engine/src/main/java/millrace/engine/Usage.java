package millrace.engine;

/// Counts of tokens. `completionTokens` includes the stop token.
public record Usage(int promptTokens, int completionTokens, int cachedPromptTokens) {}

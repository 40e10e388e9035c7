package millrace.engine;

/// Counts of tokens.
///
/// @param completionTokens the stop token included
/// @param cachedPromptTokens those of the prompt that were taken from pages that others had computed, the first time
///        that the prompt was computed; what is computed again after a preemption does not change it
public record Usage(int promptTokens, int completionTokens, int cachedPromptTokens) {}

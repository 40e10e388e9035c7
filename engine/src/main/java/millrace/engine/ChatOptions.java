package millrace.engine;

import org.jspecify.annotations.Nullable;

/// The switches of a chat format; no free-form arguments reach it.
///
/// @param tools a JSON array as text, or null
/// @param thinking null takes the format's default
/// @param reasoningEffort `high`, `max` or null for the format's default
public record ChatOptions(
        @Nullable String tools,
        @Nullable Boolean thinking,
        @Nullable String reasoningEffort,
        boolean addGenerationPrompt) {
    public static final ChatOptions DEFAULT = new ChatOptions(null, null, null, true);
}

package millrace.engine;

/// What an engine has done since it was opened, and what its KV cache holds now.
///
/// @param steps steps computed
/// @param preemptions sequences that gave their pages back to others, to be computed again
/// @param kvPages pages of the KV cache
/// @param kvFreePages pages that no sequence holds, those that the prefix cache keeps included
/// @param cachedPages pages that the prefix cache can find, held or not
/// @param prefixHitTokens tokens that were taken from the prefix cache instead of being computed
/// @param prefixEvictions pages of the prefix cache that were given to another use
/// @param drafts what came of tokens that were drafted ahead
public record EngineStats(
        long steps,
        long preemptions,
        int kvPages,
        int kvFreePages,
        int cachedPages,
        long prefixHitTokens,
        long prefixEvictions,
        DraftStats drafts) {
    public static final EngineStats NONE = new EngineStats(0, 0, 0, 0, 0, 0, 0, DraftStats.NONE);
}

package millrace.engine;

/// Facts about one generation that an attestation may state.
///
/// @param maxBatch the most sequences that shared a step with it
/// @param numericGuard whether every step's logits passed the check for NaN and infinity
/// @param recomputedSteps steps that were given up to preemption or a fault, and computed again as far as the prefix
///        cache did not keep them
public record Transcript(int maxBatch, boolean numericGuard, int recomputedSteps) {
    public static final Transcript NONE = new Transcript(0, false, 0);
}

package millrace.engine;

/// Facts about one generation that an attestation may state.
///
/// @param maxBatch the most sequences that shared a step with it
/// @param numericGuard whether every step's logits passed the check for NaN and infinity
/// @param recomputedSteps steps that were computed again, after preemption or a fault
public record Transcript(int maxBatch, boolean numericGuard, int recomputedSteps) {
    public static final Transcript NONE = new Transcript(0, false, 0);
}

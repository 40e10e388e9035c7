package millrace.engine;

import java.util.List;

/// Facts about one generation that an attestation may state.
///
/// @param maxBatch the most sequences that shared a step with it
/// @param numericGuard whether every step's logits passed the check for NaN and infinity
/// @param productsChecked whether products of integers that it was made of were computed a second time, and agreed
/// @param recomputedSteps steps that were given up to preemption or a fault, and computed again as far as the prefix
///        cache did not keep them
/// @param lastStep number of the step that gave its last token, as [IntegrityEvent#suspectFromStep] counts; 0 for none
/// @param kvPagesVerified KV pages whose seal was checked for it
/// @param kvMismatches KV pages of it that were found damaged and computed again
/// @param logitsEvery generated tokens that one of the digests covers; 0 without digests
/// @param logitsDigests CRC-32C of the logits (binary32, little-endian) of so many generated tokens each, in order, the
///        last for what remains; the logits are those before any sampling parameter applies
/// @param activations the largest activations of each run of generated tokens, in order; empty where they are not kept
public record Transcript(
        int maxBatch,
        boolean numericGuard,
        boolean productsChecked,
        int recomputedSteps,
        long lastStep,
        int kvPagesVerified,
        int kvMismatches,
        int logitsEvery,
        List<Integer> logitsDigests,
        List<ActivationTop> activations) {
    public static final Transcript NONE = new Transcript(0, false, false, 0, 0, 0, 0, 0, List.of(), List.of());

    public Transcript {
        logitsDigests = List.copyOf(logitsDigests);
        activations = List.copyOf(activations);
    }

    /// A transcript without activations and checked products.
    public Transcript(
            int maxBatch,
            boolean numericGuard,
            int recomputedSteps,
            long lastStep,
            int kvPagesVerified,
            int kvMismatches,
            int logitsEvery,
            List<Integer> logitsDigests) {
        this(maxBatch, numericGuard, false, recomputedSteps, lastStep, kvPagesVerified, kvMismatches, logitsEvery, logitsDigests,
                List.of());
    }
}

package millrace.engine;

/// The largest activations of a run of generated tokens: what an activation proof is made of.
///
/// @param indices into the final norm's outputs `[token][hiddenSize]` of the run, largest magnitude first and the lower
///        index first among equals; not to be changed
/// @param bits the BF16 bits of each; not to be changed
public record ActivationTop(int[] indices, int[] bits) {
    /// Activations that are kept of a run.
    public static final int COUNT = 128;

    /// Generated tokens of a run; the last of a completion may have fewer.
    public static final int TOKENS = 32;
}

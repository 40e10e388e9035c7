package millrace.engine.model;

import org.jspecify.annotations.Nullable;

/// How rotary frequencies are stretched beyond the context that a model was first trained on.
public sealed interface RopeScaling {
    /// Frequencies as the formula gives them.
    record None() implements RopeScaling {}

    /// YaRN as DeepSeek defined it. A null is a key that the config does not have: the rules for the attention factor
    /// and the softmax scale depend on which keys are given.
    ///
    /// @param factor context multiplier, at least 1
    /// @param originalMaxPositionEmbeddings context of the first training, tokens
    /// @param betaFast rotations within that context from which a frequency is kept as it is
    /// @param betaSlow rotations below which a frequency is divided by `factor`
    /// @param truncate whether the two bounds are rounded outwards to whole dimensions
    record Yarn(
            double factor,
            int originalMaxPositionEmbeddings,
            double betaFast,
            double betaSlow,
            @Nullable Double mscale,
            @Nullable Double mscaleAllDim,
            @Nullable Double attentionFactor,
            boolean truncate)
            implements RopeScaling {}

    /// Llama 3's piecewise scaling by wavelength.
    ///
    /// @param factor divisor of the long wavelengths
    /// @param lowFreqFactor wavelengths above `original / lowFreqFactor` are divided
    /// @param highFreqFactor wavelengths below `original / highFreqFactor` are kept
    /// @param originalMaxPositionEmbeddings context of the first training, tokens
    record Llama3(double factor, double lowFreqFactor, double highFreqFactor, int originalMaxPositionEmbeddings)
            implements RopeScaling {}
}

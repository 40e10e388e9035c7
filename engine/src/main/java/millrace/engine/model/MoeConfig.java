package millrace.engine.model;

import java.util.List;
import millrace.engine.kernel.RouterSpec;

/// A mixture of experts, routed by sigmoid scores and a correction bias that only takes part in the selection.
///
/// @param nRoutedExperts experts to choose from
/// @param numExpertsPerTok experts chosen for a token
/// @param nSharedExperts experts that every token visits; their joint width is this times `moeIntermediateSize`
/// @param moeIntermediateSize inner width of one expert
/// @param nGroup contiguous groups of experts, 1 for none
/// @param topkGroup groups that stay eligible
/// @param normTopkProb whether the chosen scores are divided by their sum
/// @param routedScalingFactor factor of the routed weights
/// @param sparseLayers per layer, whether it is a mixture; the others are dense
public record MoeConfig(
        int nRoutedExperts,
        int numExpertsPerTok,
        int nSharedExperts,
        int moeIntermediateSize,
        int nGroup,
        int topkGroup,
        boolean normTopkProb,
        float routedScalingFactor,
        List<Boolean> sparseLayers) {

    public MoeConfig {
        if (nGroup <= 0 || nRoutedExperts % nGroup != 0 || topkGroup <= 0 || topkGroup > nGroup) {
            throw new IllegalArgumentException("experts: " + nRoutedExperts + " in " + nGroup + ", keep " + topkGroup);
        }
        if (numExpertsPerTok <= 0 || numExpertsPerTok > nRoutedExperts / nGroup * topkGroup) {
            throw new IllegalArgumentException("experts: " + numExpertsPerTok + " of " + nRoutedExperts);
        }
        sparseLayers = List.copyOf(sparseLayers);
    }

    /// How the experts of a token are chosen.
    RouterSpec router() {
        return new RouterSpec(nRoutedExperts, numExpertsPerTok, nGroup, topkGroup, normTopkProb, routedScalingFactor);
    }
}

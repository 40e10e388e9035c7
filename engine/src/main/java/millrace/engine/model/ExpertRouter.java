package millrace.engine.model;

import java.util.Arrays;
import millrace.engine.kernel.ExpMath;

/// Chooses the experts of a token and their weights.
///
/// `s = σ(logit)`; the choice is by `s + bias`, the weight by `s` alone:
///
/// 1. With several groups, a group's score is the sum of its two largest `s + bias`; experts outside the `topkGroup`
///    best groups become `−∞`. (With 0 in place of `−∞`, as old implementations had it, they would win over kept
///    experts of negative score.)
/// 2. The `numExpertsPerTok` largest are chosen; of equal ones the lower index.
/// 3. Weights are divided by their sum plus 1e-20 if `normTopkProb`, then multiplied by `routedScalingFactor`.
///
/// All in F32; the bias is never rounded to BF16, where its differences would vanish. One thread at a time.
final class ExpertRouter {
    private final MoeConfig config;
    private final float[] scores;
    private final float[] choice;
    private final float[] groupScores;
    private final boolean[] chosen;
    private final boolean[] kept;

    ExpertRouter(MoeConfig config) {
        this.config = config;
        scores = new float[config.nRoutedExperts()];
        choice = new float[config.nRoutedExperts()];
        groupScores = new float[config.nGroup()];
        chosen = new boolean[config.nRoutedExperts()];
        kept = new boolean[config.nGroup()];
    }

    /// Writes the chosen experts in ascending order, and their weights.
    ///
    /// @param logits at `offset`, one per expert
    /// @param bias correction, one per expert
    void route(float[] logits, int offset, float[] bias, int[] experts, float[] weights, int out) {
        for (int e = 0; e < scores.length; e++) {
            scores[e] = ExpMath.sigmoid(logits[offset + e]);
            choice[e] = scores[e] + bias[e];
        }
        if (config.nGroup() > 1) {
            limitToGroups();
        }
        int k = config.numExpertsPerTok();
        Arrays.fill(chosen, false);
        for (int j = 0; j < k; j++) {
            experts[out + j] = takeLargest(choice, chosen);
        }
        Arrays.sort(experts, out, out + k);
        float sum = 0;
        for (int j = 0; j < k; j++) {
            weights[out + j] = scores[experts[out + j]];
            sum += weights[out + j];
        }
        for (int j = 0; j < k; j++) {
            if (config.normTopkProb()) {
                weights[out + j] /= sum + 1e-20f;
            }
            weights[out + j] *= config.routedScalingFactor();
        }
    }

    private void limitToGroups() {
        int size = scores.length / config.nGroup();
        for (int g = 0; g < groupScores.length; g++) {
            float first = Float.NEGATIVE_INFINITY;
            float second = Float.NEGATIVE_INFINITY;
            for (int e = g * size; e < (g + 1) * size; e++) {
                if (choice[e] > first) {
                    second = first;
                    first = choice[e];
                } else if (choice[e] > second) {
                    second = choice[e];
                }
            }
            groupScores[g] = size == 1 ? first : first + second;
        }
        Arrays.fill(kept, false);
        for (int j = 0; j < config.topkGroup(); j++) {
            takeLargest(groupScores, kept);
        }
        for (int g = 0; g < groupScores.length; g++) {
            if (!kept[g]) {
                Arrays.fill(choice, g * size, (g + 1) * size, Float.NEGATIVE_INFINITY);
            }
        }
    }

    /// Takes the largest value that is not taken yet, the lowest index of several. With NaN among the values the choice
    /// is still one of them, always the same, and the NaN goes on to the logits of its row.
    private static int takeLargest(float[] values, boolean[] taken) {
        int best = -1;
        for (int i = 0; i < values.length; i++) {
            if (!taken[i] && (best < 0 || values[i] > values[best])) {
                best = i;
            }
        }
        taken[best] = true;
        return best;
    }
}

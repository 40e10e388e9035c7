package millrace.engine.kernel.cpu;

import java.util.Arrays;
import millrace.engine.kernel.ExpMath;
import millrace.engine.kernel.RouterSpec;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;

/// Chooses the experts of each row and their weights, as [millrace.engine.kernel.Kernels#route] defines it. One thread at
/// a time.
public final class ExpertRouter {
    private final RouterSpec spec;
    private final float[] scores;
    private final float[] choice;
    private final float[] groupScores;
    private final boolean[] chosen;
    private final boolean[] kept;

    public ExpertRouter(RouterSpec spec) {
        this.spec = spec;
        scores = new float[spec.experts()];
        choice = new float[spec.experts()];
        groupScores = new float[spec.groups()];
        chosen = new boolean[spec.experts()];
        kept = new boolean[spec.groups()];
    }

    RouterSpec spec() {
        return spec;
    }

    /// Fills all parts of a routing on the heap.
    public void route(Routing routing, Rows logits, float[] bias, int rows) {
        for (int row = 0; row < rows; row++) {
            route(
                    logits.values(), logits.at(row), bias, routing.chosen(), routing.weights(), row * spec.perRow());
        }
        sortByExpert(routing, rows);
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
        if (spec.groups() > 1) {
            limitToGroups();
        }
        int k = spec.perRow();
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
            if (spec.normalize()) {
                weights[out + j] /= sum + 1e-20f;
            }
            weights[out + j] *= spec.scaling();
        }
    }

    /// Gives each pair of row and expert a slot: ascending by expert, then by row.
    private void sortByExpert(Routing routing, int rows) {
        int[] experts = routing.chosen();
        int[] firstSlot = routing.firstSlot();
        int pairs = rows * spec.perRow();
        Arrays.fill(firstSlot, 0);
        for (int i = 0; i < pairs; i++) {
            firstSlot[experts[i]]++;
        }
        int slot = 0;
        for (int e = 0; e < firstSlot.length; e++) {
            int n = firstSlot[e];
            firstSlot[e] = slot;
            slot += n;
        }
        for (int i = 0; i < pairs; i++) {
            int s = firstSlot[experts[i]]++;
            routing.slots()[i] = s;
            routing.sources()[s] = i / spec.perRow();
        }
        // Each entry now stands at its end, which is the next one's beginning.
        System.arraycopy(firstSlot, 0, firstSlot, 1, firstSlot.length - 1);
        firstSlot[0] = 0;
    }

    private void limitToGroups() {
        int size = scores.length / spec.groups();
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
        for (int j = 0; j < spec.keptGroups(); j++) {
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

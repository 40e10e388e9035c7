package millrace.engine.model;

import java.util.Arrays;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// The feed-forward part of one model, dense or a mixture of experts, with the room for its intermediate results.
///
/// A mixture sorts the rows of the whole step by expert, so that each expert's weights are read once a step. What a row
/// gets does not depend on who else chose its experts: every product is a chain of its own, and a row's experts are
/// added in ascending order of their index.
final class FeedForward {
    private final Kernels kernels;
    private final Rows gate; // [row][intermediateSize]
    private final Rows up; // [row][intermediateSize]
    private final Projections projections;
    private final @Nullable Mixture mixture;

    FeedForward(ModelConfig config, Kernels kernels, int maxRows) {
        this.kernels = kernels;
        MoeConfig moe = config.moe();
        projections = new Projections(2 + 2 * (moe == null ? 0 : moe.nRoutedExperts()));
        gate = Rows.allocate(maxRows, config.intermediateSize());
        up = Rows.allocate(maxRows, config.intermediateSize());
        mixture = moe == null ? null : new Mixture(moe, config.hiddenSize(), maxRows);
    }

    /// `out = feedForward(x)` for the first rows.
    void run(LayerWeights.FeedForward weights, Rows x, int rows, Rows out) {
        switch (weights) {
            case LayerWeights.Mlp mlp -> {
                projections.clear().add(gate, mlp.gate(), null, x, rows).add(up, mlp.up(), null, x, rows);
                kernels.project(projections);
                kernels.swiglu(gate, up, rows);
                kernels.project(projections.clear().add(out, mlp.down(), null, gate, rows));
            }
            case LayerWeights.Mixture experts -> {
                if (mixture == null) {
                    throw new IllegalStateException("a mixture of experts in a model that has none");
                }
                mixture.run(experts, x, rows, out);
            }
        }
    }

    private final class Mixture {
        private final MoeConfig moe;
        private final ExpertRouter router;
        private final Rows logits; // [row][expert]
        private final int[] experts; // [row][chosen], ascending
        private final float[] weights; // [row][chosen]
        private final int[] slots; // [row][chosen], row of the gathered matrices
        private final int[] sources; // [slot], row of the step
        private final int[] firstSlot; // [expert + 1]
        private final Rows gathered; // [slot][hiddenSize]
        private final Rows expertGate; // [slot][moeIntermediateSize]
        private final Rows expertUp; // [slot][moeIntermediateSize]
        private final Rows expertOut; // [slot][hiddenSize]
        private final Rows sharedGate; // [row][nSharedExperts · moeIntermediateSize]
        private final Rows sharedUp;
        private final Rows sharedOut; // [row][hiddenSize]

        Mixture(MoeConfig moe, int hidden, int maxRows) {
            this.moe = moe;
            router = new ExpertRouter(moe);
            int maxSlots = Math.multiplyExact(maxRows, moe.numExpertsPerTok());
            logits = Rows.allocate(maxRows, moe.nRoutedExperts());
            experts = new int[maxSlots];
            weights = new float[maxSlots];
            slots = new int[maxSlots];
            sources = new int[maxSlots];
            firstSlot = new int[moe.nRoutedExperts() + 1];
            gathered = Rows.allocate(maxSlots, hidden);
            expertGate = Rows.allocate(maxSlots, moe.moeIntermediateSize());
            expertUp = Rows.allocate(maxSlots, moe.moeIntermediateSize());
            expertOut = Rows.allocate(maxSlots, hidden);
            int shared = moe.nSharedExperts() * moe.moeIntermediateSize();
            sharedGate = Rows.allocate(maxRows, shared);
            sharedUp = Rows.allocate(maxRows, shared);
            sharedOut = Rows.allocate(maxRows, hidden);
        }

        void run(LayerWeights.Mixture w, Rows x, int rows, Rows out) {
            int chosen = moe.numExpertsPerTok();
            kernels.project(projections.clear().add(logits, w.router(), null, x, rows));
            for (int row = 0; row < rows; row++) {
                router.route(logits.values(), logits.at(row), w.correctionBias(), experts, weights, row * chosen);
            }
            sortByExpert(rows);
            kernels.gather(gathered, x, sources, rows * chosen);

            projections
                    .clear()
                    .add(sharedGate, w.shared().gate(), null, x, rows)
                    .add(sharedUp, w.shared().up(), null, x, rows);
            for (int e = 0; e < moe.nRoutedExperts(); e++) {
                int first = firstSlot[e];
                int n = firstSlot[e + 1] - first;
                if (n > 0) {
                    LayerWeights.Mlp expert = w.experts().get(e);
                    projections.add(expertGate, first, expert.gate(), null, gathered, first, n);
                    projections.add(expertUp, first, expert.up(), null, gathered, first, n);
                }
            }
            kernels.project(projections);
            kernels.swiglu(sharedGate, sharedUp, rows);
            kernels.swiglu(expertGate, expertUp, rows * chosen);

            projections.clear().add(sharedOut, w.shared().down(), null, sharedGate, rows);
            for (int e = 0; e < moe.nRoutedExperts(); e++) {
                int first = firstSlot[e];
                int n = firstSlot[e + 1] - first;
                if (n > 0) {
                    projections.add(expertOut, first, w.experts().get(e).down(), null, expertGate, first, n);
                }
            }
            kernels.project(projections);
            kernels.combine(out, expertOut, slots, weights, chosen, sharedOut, rows);
        }

        /// Gives each pair of row and expert a slot: ascending by expert, then by row.
        private void sortByExpert(int rows) {
            int pairs = rows * moe.numExpertsPerTok();
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
                slots[i] = s;
                sources[s] = i / moe.numExpertsPerTok();
            }
            // Each entry now stands at its end, which is the next one's beginning.
            System.arraycopy(firstSlot, 0, firstSlot, 1, firstSlot.length - 1);
            firstSlot[0] = 0;
        }
    }
}

package millrace.engine.model;

import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Routing;
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
        gate = kernels.rows(maxRows, config.intermediateSize());
        up = kernels.rows(maxRows, config.intermediateSize());
        mixture = moe == null ? null : new Mixture(moe, config.hiddenSize(), maxRows);
    }

    /// `out = feedForward(x)` for the first rows.
    void run(LayerWeights.FeedForward weights, Rows x, int rows, Rows out) {
        switch (weights) {
            case LayerWeights.Mlp mlp -> {
                projections.clear().add(gate, mlp.gate(), null, x, rows).add(up, mlp.up(), null, x, rows);
                kernels.projectGated(projections, gate, up, rows);
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
        private final Rows logits; // [row][expert]
        private final Routing routing;
        private final Rows gathered; // [slot][hiddenSize]
        private final Rows expertGate; // [slot][moeIntermediateSize]
        private final Rows expertUp; // [slot][moeIntermediateSize]
        private final Rows expertOut; // [slot][hiddenSize]
        private final Rows sharedGate; // [row][nSharedExperts · moeIntermediateSize]
        private final Rows sharedUp;
        private final Rows sharedOut; // [row][hiddenSize]

        Mixture(MoeConfig moe, int hidden, int maxRows) {
            int maxSlots = Math.multiplyExact(maxRows, moe.numExpertsPerTok());
            logits = kernels.rows(maxRows, moe.nRoutedExperts());
            routing = kernels.routing(maxRows, moe.router());
            gathered = kernels.rows(maxSlots, hidden);
            expertGate = kernels.rows(maxSlots, moe.moeIntermediateSize());
            expertUp = kernels.rows(maxSlots, moe.moeIntermediateSize());
            expertOut = kernels.rows(maxSlots, hidden);
            int shared = moe.nSharedExperts() * moe.moeIntermediateSize();
            sharedGate = kernels.rows(maxRows, shared);
            sharedUp = kernels.rows(maxRows, shared);
            sharedOut = kernels.rows(maxRows, hidden);
        }

        void run(LayerWeights.Mixture w, Rows x, int rows, Rows out) {
            kernels.project(projections.clear().add(logits, w.router(), null, x, rows));
            kernels.route(routing, logits, w.correctionBias(), rows);
            kernels.gather(gathered, x, routing, rows);

            projections
                    .clear()
                    .add(sharedGate, w.shared().gate(), null, x, rows)
                    .add(sharedUp, w.shared().up(), null, x, rows)
                    .addExperts(expertGate, w.gate(), gathered, routing, rows)
                    .addExperts(expertUp, w.up(), gathered, routing, rows);
            kernels.projectGated(projections, sharedGate, sharedUp, expertGate, expertUp, routing, rows);

            kernels.project(projections
                    .clear()
                    .add(sharedOut, w.shared().down(), null, sharedGate, rows)
                    .addExperts(expertOut, w.down(), expertGate, routing, rows));
            kernels.combine(out, expertOut, routing, sharedOut, rows);
        }
    }
}

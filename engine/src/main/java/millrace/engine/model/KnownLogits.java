package millrace.engine.model;

import millrace.engine.Sampling;
import millrace.engine.batch.LogitFacts;
import millrace.engine.batch.StepPlan;
import millrace.engine.kernel.Draws;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;

/// What the kernels know of the logits of a step, and what they drew from them.
///
/// @param facts of the logits
record KnownLogits(Kernels kernels, Rows logits, RowFacts facts) implements LogitFacts {
    /// Asks for the tokens that the plan wants drawn.
    void ask(StepPlan plan) {
        Draws draws = facts.draws();
        draws.clear();
        for (int row = 0; row < plan.logitRowCount(); row++) {
            Sampling sampling = plan.sampling(row);
            if (sampling != null) {
                draws.ask(row, sampling, plan.tokensBefore(row), plan.length(row), plan.step(row));
            }
        }
    }

    @Override
    public int largest(int row) {
        return facts.largest(row);
    }

    @Override
    public int differing(int row) {
        return facts.differing(row);
    }

    @Override
    public int best(int row) {
        return facts.best(row);
    }

    @Override
    public int bestBits(int row) {
        return facts.bestBits(row);
    }

    @Override
    public int drawn(int row) {
        return facts.draws().token(row);
    }

    @Override
    public boolean here(int row) {
        return !facts.draws().absent(row);
    }

    @Override
    public int checksum(int row) {
        return facts.checksum(row);
    }

    @Override
    public void bring(int row) {
        if (facts.draws().absent(row)) {
            kernels.bring(logits, facts, row);
        }
    }
}

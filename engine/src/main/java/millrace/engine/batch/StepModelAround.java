package millrace.engine.batch;

import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/// A model around another, which answers whatever is not overridden.
public abstract class StepModelAround implements StepModel {
    private final StepModel model;

    /// @param model the other one
    protected StepModelAround(StepModel model) {
        this.model = model;
    }

    @Override
    public int firstForeign(StepPlan plan) {
        return model.firstForeign(plan);
    }

    @Override
    public int forward(StepPlan plan) {
        return model.forward(plan);
    }

    @Override
    public boolean drafts() {
        return model.drafts();
    }

    @Override
    public int draft(StepPlan plan, int[] sources, boolean further) {
        return model.draft(plan, sources, further);
    }

    @Override
    public float[] logits() {
        return model.logits();
    }

    @Override
    public @Nullable LogitFacts facts() {
        return model.facts();
    }

    @Override
    public int vocabSize() {
        return model.vocabSize();
    }

    @Override
    public float[] hidden() {
        return model.hidden();
    }

    @Override
    public int hiddenSize() {
        return model.hiddenSize();
    }

    @Override
    public void forEach(int count, IntConsumer task) {
        model.forEach(count, task);
    }

    @Override
    public float logitBound() {
        return model.logitBound();
    }
}

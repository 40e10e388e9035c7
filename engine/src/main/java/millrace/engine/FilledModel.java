package millrace.engine;

import java.util.function.IntConsumer;
import millrace.engine.batch.LogitFacts;
import millrace.engine.batch.StepModel;
import millrace.engine.batch.StepPlan;
import millrace.engine.model.Transformer;
import org.jspecify.annotations.Nullable;

/// A model that fills the cache where a step has nothing but chunks of prompts, see [Engine#openFilled].
record FilledModel(Transformer model) implements StepModel {
    @Override
    public int firstForeign(StepPlan plan) {
        return model.firstForeign(plan);
    }

    @Override
    public int forward(StepPlan plan) {
        if (plan.rowCount() > 0 && plan.logitRowCount() == 0) {
            model.fill(plan);
            return 0;
        }
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

package millrace.engine;

import millrace.engine.batch.StepModelAround;
import millrace.engine.batch.StepPlan;
import millrace.engine.model.Transformer;

/// A model that fills the cache where a step has nothing but chunks of prompts, see [Engine#openFilled].
final class FilledModel extends StepModelAround {
    private final Transformer model;

    FilledModel(Transformer model) {
        super(model);
        this.model = model;
    }

    @Override
    public int forward(StepPlan plan) {
        if (plan.rowCount() > 0 && plan.logitRowCount() == 0) {
            model.fill(plan);
            return 0;
        }
        return super.forward(plan);
    }
}

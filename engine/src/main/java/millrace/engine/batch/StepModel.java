package millrace.engine.batch;

import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/// What the scheduler needs of a model: the logits of a plan.
public interface StepModel {
    /// Looks at the pages of a plan where [#forward] will read them, if that is not the memory of the process: its caller then
    /// computes this plan, or changes it and calls this again.
    ///
    /// @return the first segment with a page that is not its own there, −1 if there is none
    default int firstForeign(StepPlan plan) {
        return -1;
    }

    /// Computes the plan and writes its keys and values into the plan's pages.
    ///
    /// @return the number of rows in [#logits], in the order of the plan's rows
    int forward(StepPlan plan);

    /// Whether this model can draft tokens ahead.
    default boolean drafts() {
        return false;
    }

    /// Feeds the draft layer, after [#forward] and what was made of it. A row stands for position t of its sequence, takes the
    /// token of position t + 1 and a hidden state, and gives logits of the token of position t + 2.
    ///
    /// Rows that are not `further` start from the hidden state of position t, so `sources` are rows of the last plan of
    /// [#forward], whatever was fed since; all rows of that plan are kept if it said so ([StepPlan#feeding]). Rows that are `further` start from a draft: `sources`
    /// are rows of [#logits] of the last call of this method. [#logits] are overwritten; [#facts] say nothing of them.
    ///
    /// @param plan of the rows; what of it wants logits gets them
    /// @param sources one for each row of the plan, ascending
    /// @return the number of rows in [#logits]
    default int draft(StepPlan plan, int[] sources, boolean further) {
        throw new UnsupportedOperationException("this model has no draft layer");
    }

    /// Logits of the last plan, row-major `[rows][vocabSize]`; valid until the next call of [#forward].
    float[] logits();

    /// What is known of the rows of [#logits]; valid as long as these. Null where whoever asks must look.
    default @Nullable LogitFacts facts() {
        return null;
    }

    int vocabSize();

    /// Outputs of the final norm that the logits were made of, row-major `[rows][hiddenSize]`; valid as long as
    /// [#logits].
    float[] hidden();

    int hiddenSize();

    /// Runs a task for each of `0 … count − 1`, on any of the model's threads, in any order; returns when all are done. Between
    /// two steps, on the thread that computes them.
    default void forEach(int count, IntConsumer task) {
        for (int i = 0; i < count; i++) {
            task.accept(i);
        }
    }

    /// No logit of this model has a larger absolute value, whatever the tokens.
    default float logitBound() {
        return Float.MAX_VALUE;
    }
}

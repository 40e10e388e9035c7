package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.ActivationTop;
import org.jspecify.annotations.Nullable;

/// Collects what one sequence's activation proofs are made of: the final norm's outputs, run by run.
final class Activations {
    /// Collects nothing.
    static final Activations NONE = new Activations(null);

    private final @Nullable StepModel model;
    private final int width;
    private final float[] run;
    private final List<ActivationTop> tops = new ArrayList<>();
    private int rows;

    /// @param model whose steps it looks at; null to collect nothing
    Activations(@Nullable StepModel model) {
        this.model = model;
        width = model == null ? 0 : model.hiddenSize();
        run = new float[ActivationTop.TOKENS * width];
    }

    /// Adds the row of the step that gave the next token.
    ///
    /// @param logitsOffset where the row's logits begin
    void add(int logitsOffset) {
        if (model == null) {
            return;
        }
        int row = logitsOffset / model.vocabSize();
        System.arraycopy(model.hidden(), row * width, run, rows % ActivationTop.TOKENS * width, width);
        rows++;
        if (rows % ActivationTop.TOKENS == 0) {
            tops.add(ActivationTop.of(run, run.length));
        }
    }

    /// Goes back to where at most so many tokens were added.
    ///
    /// @return how many are now: of a run that is over, only all or nothing can be kept
    int keep(int tokens) {
        if (width == 0 || tokens >= rows) {
            return tokens;
        }
        int runs = tokens / ActivationTop.TOKENS;
        boolean current = runs == tops.size();
        tops.subList(runs, tops.size()).clear();
        rows = current ? tokens : runs * ActivationTop.TOKENS;
        return rows;
    }

    /// All runs, that of the remaining rows included if it has enough values.
    List<ActivationTop> values() {
        int rest = rows % ActivationTop.TOKENS * width;
        if (rest < ActivationTop.COUNT) {
            return List.copyOf(tops);
        }
        List<ActivationTop> all = new ArrayList<>(tops);
        all.add(ActivationTop.of(run, rest));
        return all;
    }
}

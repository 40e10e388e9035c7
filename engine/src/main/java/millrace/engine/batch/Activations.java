package millrace.engine.batch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import millrace.engine.ActivationTop;
import millrace.engine.format.BFloat16;
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
            tops.add(top(run, run.length));
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
        all.add(top(run, rest));
        return all;
    }

    /// The values are ordered by the bits of their magnitude, and by index: packed into one number each, so that a plain
    /// sort finds the largest.
    private static ActivationTop top(float[] values, int count) {
        long[] order = new long[count];
        for (int i = 0; i < count; i++) {
            order[i] = (long) (BFloat16.fromFloat(values[i]) & 0x7FFF) << 32 | Integer.MAX_VALUE - i;
        }
        Arrays.sort(order);
        int[] indices = new int[ActivationTop.COUNT];
        int[] bits = new int[ActivationTop.COUNT];
        for (int i = 0; i < ActivationTop.COUNT; i++) {
            indices[i] = Integer.MAX_VALUE - (int) order[count - 1 - i];
            bits[i] = BFloat16.fromFloat(values[indices[i]]) & 0xFFFF;
        }
        return new ActivationTop(indices, bits);
    }
}

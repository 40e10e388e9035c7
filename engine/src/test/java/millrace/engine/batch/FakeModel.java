package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.IntPredicate;
import millrace.engine.kv.PageTable;

/// A model whose logits are a hash of the tokens that its pages hold, and which checks every plan that it is given:
/// rows in order, no gap in a sequence, room in its pages, no two segments of one sequence.
final class FakeModel implements StepModel {
    static final int VOCAB = 64;

    /// One executed step: rows of each segment.
    record Step(List<Integer> rows) {}

    private final Map<PageTable, List<Integer>> held = new IdentityHashMap<>();
    private final float[] logits;
    private final int maxLogitRows;
    final List<Step> steps = new ArrayList<>();

    /// Whether the logits of a step (by number) are spoilt.
    IntPredicate spoilt = step -> false;

    Runnable beforeStep = () -> {};

    FakeModel(int maxLogitRows) {
        this.maxLogitRows = maxLogitRows;
        logits = new float[maxLogitRows * VOCAB];
    }

    @Override
    public int forward(StepPlan plan) {
        beforeStep.run();
        assertThat(plan.logitRowCount()).isLessThanOrEqualTo(maxLogitRows);
        boolean spoil = spoilt.test(steps.size());
        List<Integer> rows = new ArrayList<>();
        Map<PageTable, Boolean> inPlan = new IdentityHashMap<>();
        int row = 0;
        int out = 0;
        for (int s = 0; s < plan.segmentCount(); s++) {
            PageTable pages = plan.pages(s);
            assertThat(inPlan.put(pages, true)).as("segments of one sequence").isNull();
            List<Integer> tokens = held.computeIfAbsent(pages, p -> new ArrayList<>());
            assertThat(plan.firstRow(s)).isEqualTo(row);
            assertThat(plan.startPosition(s)).as("position that follows").isEqualTo(tokens.size());
            assertThat(pages.pageCount() * 16).isGreaterThanOrEqualTo(tokens.size() + plan.rows(s));
            for (int i = 0; i < plan.rows(s); i++, row++) {
                assertThat(plan.position(row)).isEqualTo(tokens.size());
                tokens.add(plan.token(row));
                boolean wanted = plan.wanted(s) == StepPlan.Logits.ALL
                        || plan.wanted(s) == StepPlan.Logits.LAST && i == plan.rows(s) - 1;
                if (wanted) {
                    fill(tokens, out++ * VOCAB, spoil);
                }
            }
            rows.add(plan.rows(s));
        }
        assertThat(row).isEqualTo(plan.rowCount());
        assertThat(out).isEqualTo(plan.logitRowCount());
        steps.add(new Step(rows));
        return out;
    }

    private void fill(List<Integer> tokens, int offset, boolean spoil) {
        float[] row = logitsAfter(tokens);
        System.arraycopy(row, 0, logits, offset, VOCAB);
        if (spoil) {
            logits[offset + 3] = Float.NaN;
        }
    }

    /// The logits that follow these tokens.
    static float[] logitsAfter(List<Integer> tokens) {
        long hash = 17;
        for (int token : tokens) {
            hash = hash * 6364136223846793005L + token + 1442695040888963407L;
        }
        var random = new SplittableRandom(hash);
        float[] row = new float[VOCAB];
        for (int i = 0; i < VOCAB; i++) {
            row[i] = (float) (random.nextDouble() * 10 - 5);
        }
        return row;
    }

    @Override
    public float[] logits() {
        return logits;
    }

    @Override
    public int vocabSize() {
        return VOCAB;
    }
}

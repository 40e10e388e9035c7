package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.IntPredicate;
import millrace.engine.kv.PageTable;

/// A model whose logits are a hash of the tokens that its pages hold, and which checks every plan that it is given:
/// rows in order, no gap in a sequence, room in its pages, no two segments of one sequence, no two writers of one page,
/// nothing read that was not written since the page was handed out.
final class FakeModel implements StepModel {
    static final int VOCAB = 64;
    private static final int TOKENS = 16;

    /// One executed step: rows of each segment.
    record Step(List<Integer> rows) {}

    /// What was written to a page while it had this epoch.
    private static final class Page {
        final int epoch;
        final int[] tokens = new int[TOKENS];
        int written;

        Page(int epoch) {
            this.epoch = epoch;
        }
    }

    private final Map<Integer, Page> memory = new HashMap<>();
    private final float[] logits;
    private final int maxLogitRows;
    final List<Step> steps = new ArrayList<>();
    int stepCount;
    long rowCount;

    /// Whether [#steps] is kept.
    boolean recording = true;

    /// Whether the logits of a step (by number) are spoilt.
    IntPredicate spoilt = step -> false;

    /// Whether the logits of a step (by number) are finite and wrong.
    IntPredicate shifted = step -> false;

    Runnable beforeStep = () -> {};

    FakeModel(int maxLogitRows) {
        this.maxLogitRows = maxLogitRows;
        logits = new float[maxLogitRows * VOCAB];
    }

    @Override
    public int forward(StepPlan plan) {
        beforeStep.run();
        check(plan.logitRowCount() <= maxLogitRows, "logit rows");
        boolean spoil = spoilt.test(stepCount);
        List<Integer> rows = new ArrayList<>();
        Set<PageTable> inPlan = new HashSet<>();
        Set<Integer> writtenTo = new HashSet<>();
        int row = 0;
        int out = 0;
        for (int s = 0; s < plan.segmentCount(); s++) {
            PageTable pages = plan.pages(s);
            int start = plan.startPosition(s);
            check(inPlan.add(pages), "two segments of one sequence");
            check(plan.firstRow(s) == row, "rows in order");
            check(start >= pages.sealedTokens(), "a write to a sealed page");
            for (int page = start / TOKENS; page <= (start + plan.rows(s) - 1) / TOKENS; page++) {
                check(writtenTo.add(pages.page(page)), "two writers of one page");
            }
            for (int i = 0; i < plan.rows(s); i++, row++) {
                check(plan.position(row) == start + i, "position that follows");
                write(pages, start + i, plan.token(row));
                boolean wanted = plan.wanted(s) == StepPlan.Logits.ALL
                        || plan.wanted(s) == StepPlan.Logits.LAST && i == plan.rows(s) - 1;
                if (wanted) {
                    fill(read(pages, start + i + 1), out++ * VOCAB, spoil);
                }
            }
            rows.add(plan.rows(s));
        }
        assertThat(row).isEqualTo(plan.rowCount());
        assertThat(out).isEqualTo(plan.logitRowCount());
        if (recording) {
            steps.add(new Step(rows));
        }
        stepCount++;
        rowCount += row;
        return out;
    }

    private void write(PageTable pages, int position, int token) {
        check(position / TOKENS < pages.pageCount(), "room in the pages");
        int epoch = pages.epoch(position / TOKENS);
        int number = pages.page(position / TOKENS);
        Page page = memory.get(number);
        if (page == null || page.epoch != epoch) {
            page = new Page(epoch);
            memory.put(number, page);
        }
        check(page.written == position % TOKENS, "no gap and nothing twice in a page");
        page.tokens[page.written++] = token;
    }

    private int[] read(PageTable pages, int count) {
        int[] tokens = new int[count];
        for (int i = 0; i < count; i++) {
            Page page = memory.get(pages.page(i / TOKENS));
            check(page != null && page.epoch == pages.epoch(i / TOKENS), "a page of this sequence");
            check(i % TOKENS < page.written, "a token that was written");
            tokens[i] = page.tokens[i % TOKENS];
        }
        return tokens;
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError("plan: expected " + what);
        }
    }

    private void fill(int[] tokens, int offset, boolean spoil) {
        fillLogits(tokens, logits, offset);
        if (spoil) {
            logits[offset + 3] = Float.NaN;
        }
        if (shifted.test(stepCount)) {
            float first = logits[offset];
            System.arraycopy(logits, offset + 1, logits, offset, VOCAB - 1);
            logits[offset + VOCAB - 1] = first;
        }
    }

    /// The logits that follow these tokens.
    static float[] logitsAfter(List<Integer> tokens) {
        float[] row = new float[VOCAB];
        fillLogits(tokens.stream().mapToInt(i -> i).toArray(), row, 0);
        return row;
    }

    private static void fillLogits(int[] tokens, float[] out, int offset) {
        long hash = 17;
        for (int token : tokens) {
            hash = hash * 6364136223846793005L + token + 1442695040888963407L;
        }
        var random = new SplittableRandom(hash);
        for (int i = 0; i < VOCAB; i++) {
            out[offset + i] = (float) (random.nextDouble() * 10 - 5);
        }
    }

    @Override
    public float[] logits() {
        return logits;
    }

    @Override
    public int vocabSize() {
        return VOCAB;
    }

    /// The logits stand for them.
    @Override
    public float[] hidden() {
        return logits;
    }

    @Override
    public int hiddenSize() {
        return VOCAB;
    }
}

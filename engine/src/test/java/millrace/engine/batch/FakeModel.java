package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.IntPredicate;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// A model whose logits are a hash of the tokens that its pages hold, and which checks every plan that it is given:
/// rows in order, no gap in a sequence, room in its pages, no two segments of one sequence, no two writers of one page,
/// nothing read that was not written since the page was handed out.
///
/// With a [Drafter] it has a draft layer, whose entries stand in the same pages, and checks what it is fed alike: every row of
/// the step that it says it comes from, the tokens that follow, no entry missing or of other tokens, no page that the step did
/// not have.
final class FakeModel implements StepModel {
    static final int VOCAB = 64;
    private static final int TOKENS = 16;

    /// One executed step: rows of each segment.
    record Step(List<Integer> rows) {}

    /// What was written to a page while it had this epoch.
    private static final class Page {
        final int epoch;
        final int[] tokens = new int[TOKENS];
        final long[] drafts = new long[TOKENS];
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

    Runnable beforeDraft = () -> {};

    /// Logits of drafts.
    interface Drafter {
        /// @param tokens those that came and those that were drafted
        void fill(int[] tokens, float[] logits, int offset);
    }

    @Nullable Drafter drafter;

    /// Rows that the draft layer computed.
    long draftRows;

    /// Steps of which nothing was to be fed to it, and steps of which some sequences were, and others not.
    int unfedSteps;

    int partlyFedSteps;
    private boolean feeding;

    private final List<PageTable> stepPages = new ArrayList<>();
    private final List<Integer> stepPositions = new ArrayList<>();

    /// Page and epoch of what the last step was allowed to write.
    private final Set<Long> stepRoom = new HashSet<>();

    /// Of the rows with logits of the last drafts, what they followed from.
    private List<int[]> chains = List.of();

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
        stepPages.clear();
        stepPositions.clear();
        stepRoom.clear();
        feeding = plan.feeding();
        unfedSteps += feeding ? 0 : 1;
        for (int s = 0; s < plan.segmentCount(); s++) {
            PageTable pages = plan.pages(s);
            int start = plan.startPosition(s);
            for (int page = 0; page <= (start + plan.rows(s) - 1) / TOKENS; page++) {
                stepRoom.add(name(pages, page));
            }
            check(inPlan.add(pages), "two segments of one sequence");
            check(plan.firstRow(s) == row, "rows in order");
            check(start >= pages.sealedTokens(), "a write to a sealed page");
            for (int page = start / TOKENS; page <= (start + plan.rows(s) - 1) / TOKENS; page++) {
                check(writtenTo.add(pages.page(page)), "two writers of one page");
            }
            for (int i = 0; i < plan.rows(s); i++, row++) {
                check(plan.position(row) == start + i, "position that follows");
                write(pages, start + i, plan.token(row));
                stepPages.add(pages);
                stepPositions.add(start + i);
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
        check(drafter == null ? page.written == position % TOKENS : page.written >= position % TOKENS,
                "no gap and nothing twice in a page");
        page.written = position % TOKENS;
        page.tokens[page.written++] = token;
    }

    private static long name(PageTable pages, int page) {
        return (long) pages.page(page) << 32 | pages.epoch(page);
    }

    @Override
    public boolean drafts() {
        return drafter != null;
    }

    @Override
    public int draft(StepPlan plan, int[] sources, boolean further) {
        beforeDraft.run();
        check(feeding, "drafts behind a step that said so");
        partlyFedSteps += !further && plan.segmentCount() < new HashSet<>(stepPages).size() ? 1 : 0;
        List<int[]> next = new ArrayList<>();
        for (int s = 0; s < plan.segmentCount(); s++) {
            PageTable pages = plan.pages(s);
            for (int i = 0; i < plan.rows(s); i++) {
                int row = plan.firstRow(s) + i;
                int position = plan.startPosition(s) + i;
                check(row == 0 || sources[row] > sources[row - 1], "sources in order");
                int[] chain;
                if (further) {
                    int[] before = chains.get(sources[row]);
                    check(position == before.length - 1, "a draft that goes on from its source");
                    chain = Arrays.copyOf(before, before.length + 1);
                } else {
                    check(stepPages.get(sources[row]) == pages && stepPositions.get(sources[row]) == position,
                            "a row of the step");
                    chain = Arrays.copyOf(read(pages, position + 1), position + 2);
                }
                chain[position + 1] = plan.token(row);
                check(stepRoom.contains(name(pages, position / TOKENS)), "a page that the step had");
                check(position >= pages.sealedTokens(), "a draft in a page that is not sealed");
                Page page = memory.get(pages.page(position / TOKENS));
                if (page == null || page.epoch != pages.epoch(position / TOKENS)) {
                    throw new AssertionError("plan: expected a draft in a page of this sequence");
                }
                page.drafts[position % TOKENS] = entry(chain, position, further);
                draftRows++;
                if (i == plan.rows(s) - 1) {
                    checkDrafts(pages, chain, further ? position - drafted(pages, chain, position) : position + 1);
                    if (plan.wanted(s) != StepPlan.Logits.NONE) {
                        drafter.fill(chain, logits, next.size() * VOCAB);
                        next.add(chain);
                    }
                }
            }
        }
        chains = next;
        return next.size();
    }

    /// How many of the entries before the position are of drafts.
    private int drafted(PageTable pages, int[] chain, int position) {
        int count = 0;
        while (count < position && entryAt(pages, position - 1 - count) == entry(chain, position - 1 - count, true)) {
            count++;
        }
        return count;
    }

    /// All entries of the draft layer before a position are of tokens that came, each with the one that followed.
    private void checkDrafts(PageTable pages, int[] chain, int count) {
        long hash = 17;
        for (int i = 0; i < count; i++) {
            hash = mix(hash, chain[i]);
            check(entryAt(pages, i) == mix(hash, chain[i + 1]),
                    "an entry of the draft layer for each token, got another at " + i);
        }
    }

    private long entryAt(PageTable pages, int position) {
        Page page = memory.get(pages.page(position / TOKENS));
        check(page != null && page.epoch == pages.epoch(position / TOKENS), "a page of this sequence");
        return page.drafts[position % TOKENS];
    }

    /// What the draft layer keeps of a position: all tokens up to it, and the next.
    private static long entry(int[] chain, int position, boolean further) {
        long hash = further ? 18 : 17;
        for (int i = 0; i <= position + 1; i++) {
            hash = mix(hash, chain[i]);
        }
        return hash;
    }

    private static long mix(long hash, int token) {
        return hash * 6364136223846793005L + token + 1442695040888963407L;
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

    static void fillLogits(int[] tokens, float[] out, int offset) {
        long hash = 17;
        for (int token : tokens) {
            hash = mix(hash, token);
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

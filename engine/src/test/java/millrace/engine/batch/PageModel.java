package millrace.engine.batch;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.function.ToIntFunction;
import millrace.engine.kernel.Memory;
import millrace.engine.kv.PageTable;

/// A model whose "keys and values" really lie in the pages: each token fills its sixteenth of a page with words that follow
/// from the token, its position and all that lies before it, and the logits follow from all words up to the last token. One
/// wrong bit in a page that is read changes everything after it.
final class PageModel implements StepModel {
    static final int VOCAB = FakeModel.VOCAB;
    private static final int TOKENS = 16;

    private final long pageBytes;

    /// Where the draft layer's part of a page begins; its end without one.
    private final long draftsFrom;

    private final float[] logits;
    boolean spoilt;

    /// Which segment of a plan it says is not the sequence's own where it reads.
    ToIntFunction<StepPlan> foreign = plan -> -1;

    PageModel(long pageBytes, int maxLogitRows) {
        this(pageBytes, maxLogitRows, false);
    }

    /// @param drafts whether the second half of each page is a draft layer's, that is right as often as not
    PageModel(long pageBytes, int maxLogitRows, boolean drafts) {
        this.pageBytes = pageBytes;
        draftsFrom = drafts ? pageBytes / 2 : pageBytes;
        logits = new float[maxLogitRows * VOCAB];
    }

    @Override
    public int firstForeign(StepPlan plan) {
        return foreign.applyAsInt(plan);
    }

    @Override
    public int forward(StepPlan plan) {
        int row = 0;
        int out = 0;
        for (int s = 0; s < plan.segmentCount(); s++) {
            PageTable pages = plan.pages(s);
            int start = plan.startPosition(s);
            for (int i = 0; i < plan.rows(s); i++, row++) {
                long before = read(pages, start + i);
                write(pages, start + i, before, plan.token(row));
                boolean wanted = plan.wanted(s) == StepPlan.Logits.ALL
                        || plan.wanted(s) == StepPlan.Logits.LAST && i == plan.rows(s) - 1;
                if (wanted) {
                    fill(mix(before, plan.token(row)), out++ * VOCAB);
                }
            }
        }
        return out;
    }

    @Override
    public boolean drafts() {
        return draftsFrom < pageBytes;
    }

    @Override
    public int draft(StepPlan plan, int[] sources, boolean further) {
        int out = 0;
        for (int row = 0, s = 0; s < plan.segmentCount(); s++) {
            PageTable pages = plan.pages(s);
            for (int i = 0; i < plan.rows(s); i++, row++) {
                int position = plan.position(row);
                long own = read(pages, position + 1, draftsFrom, pageBytes);
                long next = further ? own : mix(read(pages, position + 1), plan.token(row));
                write(pages, position, next, plan.token(row), draftsFrom, pageBytes);
                if (plan.wanted(s) == StepPlan.Logits.LAST && i == plan.rows(s) - 1) {
                    fill(own < 0 ? next : own, out++ * VOCAB);
                }
            }
        }
        return out;
    }

    /// A hash of all words before the position.
    private long read(PageTable pages, int position) {
        return read(pages, position, 0, draftsFrom);
    }

    private long read(PageTable pages, int position, long from, long to) {
        long hash = 17;
        for (int page = 0; page * TOKENS < position; page++) {
            int slots = Math.min(TOKENS, position - page * TOKENS);
            MemorySegment memory = Memory.ALL.asSlice(pages.addresses()[page] + from, to - from);
            long words = slots * (to - from) / TOKENS / Long.BYTES;
            for (long w = 0; w < words; w++) {
                hash = hash * 6364136223846793005L + memory.get(ValueLayout.JAVA_LONG, w * Long.BYTES);
            }
        }
        return hash;
    }

    private void write(PageTable pages, int position, long before, int token) {
        write(pages, position, before, token, 0, draftsFrom);
    }

    private void write(PageTable pages, int position, long before, int token, long part, long end) {
        MemorySegment memory = Memory.ALL.asSlice(pages.addresses()[position / TOKENS] + part, end - part);
        long slot = (end - part) / TOKENS;
        long from = position % TOKENS * slot;
        long word = mix(before, token);
        for (long at = 0; at < slot; at += Long.BYTES) {
            word = word * 0x9E3779B97F4A7C15L + position;
            memory.set(ValueLayout.JAVA_LONG, from + at, word);
        }
    }

    private static long mix(long hash, int token) {
        return hash * 6364136223846793005L + token + 1442695040888963407L;
    }

    private void fill(long hash, int offset) {
        long z = hash;
        for (int i = 0; i < VOCAB; i++) {
            z = z * 6364136223846793005L + 1442695040888963407L;
            logits[offset + i] = ((z >>> 40) - (1 << 23)) / (float) (1 << 21);
        }
        if (spoilt) {
            logits[offset] = Float.NaN;
            spoilt = false;
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

    @Override
    public float[] hidden() {
        return logits();
    }

    @Override
    public int hiddenSize() {
        return vocabSize();
    }
}

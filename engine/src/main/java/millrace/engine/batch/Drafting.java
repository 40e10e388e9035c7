package millrace.engine.batch;

import java.util.concurrent.atomic.AtomicLongArray;
import millrace.engine.DraftStats;
import millrace.engine.Speculation;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// Tokens that the draft layer proposes for the next step, where they are checked.
///
/// ```
///  a step     rows of a sequence     the last token and the drafts behind it, all with logits
///             delivered              one after the other, as long as the token that is chosen is the next draft
///  after it   fed                    the confirmed rows, each with the token that follows it: the draft layer has consumed
///                                    what the others have, neither more nor less
///             drafted                from the last of them one token, then one more from each draft
/// ```
///
/// A draft is never believed: every token is chosen from logits of the model itself, by its own row, with the bits that it has
/// without drafts. So the draft layer decides how many tokens a step gives, and nothing else.
///
/// Drafts stand in the sequence's own array behind its tokens, and their keys and values behind those of its tokens, in pages
/// that it holds: whatever is not confirmed is written over by what comes there. A draft writes only to pages that the step's
/// checks have seen, and nobody gives up a page for one.
///
/// Where `auto` finds that not even feeding the draft layer pays, sequences are left out of it from their start to their end: they
/// are computed as if there were none.
///
/// Used by the loop's thread; nothing is allocated after construction.
final class Drafting {
    private final StepModel model;
    private final PagePool pool;
    private final StepClock clock;
    private final int most;
    private final @Nullable DraftPolicy policy;
    private final LogitsCheck check;
    private final StepPlan plan;
    private final int[] sources;
    private final Sequence[] drafters;

    /// The most tokens that may be drafted for each of them.
    private final int[] limits;

    /// The row of the logits that each of them drafts from.
    private final int[] rowOf;

    private final Counts counts = new Counts();
    private long began;

    /// Sequences of a step that has nothing but tokens and drafts to check; 0 for any other step.
    private int decoding;

    /// Sequences of the step that go on decoding and that the draft layer is fed with.
    private int fedSequences;

    private int depth;

    /// @param limits with drafts
    Drafting(StepModel model, PagePool pool, StepClock clock, BatchLoop.Limits limits) {
        if (!model.drafts() || !pool.layout().drafted()) {
            throw new IllegalArgumentException(
                    "drafts: expected a model that can draft and pages with a draft layer, got a model that "
                            + (model.drafts() ? "can" : "cannot") + " and pages "
                            + (pool.layout().drafted() ? "with" : "without"));
        }
        this.model = model;
        this.pool = pool;
        this.clock = clock;
        most = limits.speculation().tokens();
        policy = limits.speculation().mode() == Speculation.Mode.AUTO ? new DraftPolicy(most, limits.maxBatch()) : null;
        check = new LogitsCheck(model.vocabSize(), Float.MAX_VALUE, null, model::forEach);
        plan = new StepPlan(limits.maxBatch(), limits.maxRows());
        sources = new int[limits.maxRows()];
        drafters = new Sequence[limits.maxBatch()];
        this.limits = new int[limits.maxBatch()];
        rowOf = new int[limits.maxBatch()];
    }

    /// Whether the draft layer is not to be fed with a sequence that is about to begin, or begin again.
    ///
    /// @param sequences that then run together, as it looks now
    boolean leavesOut(Sequence sequence, int sequences) {
        return policy != null && !sequence.work.hearsDrafts() && !policy.drafts(sequences);
    }

    /// Whether any row of the plan is of a sequence that the draft layer is fed with.
    static boolean feeds(StepPlan plan, Sequence[] planned) {
        for (int s = 0; s < plan.segmentCount(); s++) {
            if (!planned[s].undrafted) {
                return true;
            }
        }
        return false;
    }

    /// How many of a sequence's drafts a step can check: its pages have room for them, or free ones do that nobody is about to
    /// need.
    ///
    /// @param rows that are left for drafts
    /// @param running sequences that may each need a page
    static int room(Sequence sequence, PageTable pages, PagePool pool, int rows, int running) {
        int drafts = Math.min(sequence.drafts, rows);
        int held = pages.pageCount() * pool.pageTokens() - sequence.length();
        if (drafts <= held) {
            return drafts;
        }
        int missing = PagePool.pagesFor(sequence.length() + drafts) - pages.pageCount();
        return pool.freePages() >= missing + running && pages.ensure(sequence.length() + drafts) ? drafts : held;
    }

    /// A step begins.
    void begin(StepPlan step, Sequence[] planned) {
        began = clock.nanos();
        int rows = 0;
        int sequences = 0;
        fedSequences = 0;
        for (int s = 0; s < step.segmentCount(); s++) {
            if (planned[s].decoding()) {
                sequences++;
                fedSequences += planned[s].undrafted ? 0 : 1;
                rows = Math.max(rows, step.rows(s));
            }
        }
        counts.step(rows > 1);
        decoding = sequences == step.segmentCount() ? sequences : 0;
        depth = rows - 1;
        if (policy != null && sequences > 0) {
            policy.step(sequences);
        }
    }

    /// A step has so many drafts of a sequence to check.
    void offer(int drafts) {
        counts.offer(drafts);
    }

    /// A draft was met by the token that was chosen there.
    ///
    /// @param position 0 for the first draft of a sequence
    void judge(int position, boolean right) {
        if (right) {
            counts.accept(position);
        }
        if (policy != null) {
            policy.judge(position, right);
        }
    }

    /// Feeds what a step has confirmed and drafts what the next one shall check.
    ///
    /// @param fed told when all that was confirmed is fed, before anything is drafted further
    void feed(StepPlan step, Sequence[] planned, Runnable fed) {
        int next = next(step, planned);
        int count = plan(step, planned, next);
        long before = clock.nanos();
        int rows = plan.segmentCount() == 0 ? 0 : model.draft(plan, sources, false);
        long feedNanos = clock.nanos() - before;
        expect(plan.logitRowCount(), rows);
        hand(step, planned);
        count = take(count, 0);
        fed.run();
        for (int drafted = 1; count > 0 && drafted < next; drafted++) {
            count = further(count, drafted);
            if (count > 0) {
                expect(count, model.draft(plan, sources, true));
                count = take(count, drafted);
            }
        }
        plan.clear();
        if (policy != null && decoding > 0) {
            long nanos = clock.nanos() - began;
            if (fedSequences == 0) {
                policy.tookUndrafted(decoding, nanos);
            } else if (fedSequences == decoding && depth == next) {
                policy.took(decoding, depth, nanos, feedNanos);
            }
        }
    }

    /// How many tokens are drafted for each sequence now.
    private int next(StepPlan step, Sequence[] planned) {
        int sequences = 0;
        int drafting = 0;
        for (int s = 0; s < step.segmentCount(); s++) {
            if (planned[s].pages == step.pages(s) && goesOn(planned[s])) {
                sequences++;
                drafting += planned[s].undrafted ? 0 : 1;
            }
        }
        return drafting == 0 ? 0 : policy == null ? most : policy.depth(sequences, drafting == sequences);
    }

    private static boolean goesOn(Sequence sequence) {
        return sequence.decoding() && sequence.ending == null && !sequence.cancelled();
    }

    /// Plans the confirmed rows of a step.
    ///
    /// @return sequences for which tokens are drafted
    private int plan(StepPlan step, Sequence[] planned, int next) {
        plan.clear();
        int count = 0;
        for (int s = 0; s < step.segmentCount(); s++) {
            Sequence sequence = planned[s];
            int start = step.startPosition(s);
            int rows = sequence.complete(true) - start;
            // Whoever gave up its pages while the step was handed out feeds nothing.
            if (sequence.undrafted || sequence.pages != step.pages(s) || rows < 1) {
                continue;
            }
            int limit = goesOn(sequence) ? Math.min(next, limit(sequence, start + step.rows(s))) : 0;
            for (int i = 0; i < rows; i++) {
                sources[plan.rowCount() + i] = step.firstRow(s) + i;
            }
            boolean heard = hears(step, s, sequence);
            plan.add(step.pages(s), sequence.tokens(), start + 1, rows, start,
                    heard ? StepPlan.Logits.ALL : limit > 0 ? StepPlan.Logits.LAST : StepPlan.Logits.NONE);
            if (limit > 0) {
                rowOf[count] = plan.logitRowCount() - 1;
                drafters[count] = sequence;
                limits[count++] = limit;
            }
        }
        return count;
    }

    /// Whether a sequence takes the draft layer's logits of this step's rows: of those whose own logits it took.
    private static boolean hears(StepPlan step, int segment, Sequence sequence) {
        return sequence.work.hearsDrafts() && step.wanted(segment) == StepPlan.Logits.ALL;
    }

    /// Hands the draft layer's logits to those that take them.
    private void hand(StepPlan step, Sequence[] planned) {
        int row = 0;
        int fed = 0;
        for (int s = 0; s < step.segmentCount() && fed < plan.segmentCount(); s++) {
            if (plan.pages(fed) != step.pages(s)) {
                continue;
            }
            int rows = switch (plan.wanted(fed)) {
                case NONE -> 0;
                case LAST -> 1;
                case ALL -> plan.rows(fed);
            };
            for (int i = 0; i < rows && hears(step, s, planned[s]); i++) {
                planned[s].work.acceptDraft(
                        planned[s], plan.startPosition(fed) + i, model.logits(), (row + i) * model.vocabSize());
            }
            row += rows;
            fed++;
        }
    }

    private static void expect(int wanted, int rows) {
        if (rows != wanted) {
            throw new IllegalStateException("drafts: expected logits of " + wanted + " rows, got " + rows);
        }
    }

    /// The first draft writes nothing, each further one the position before it.
    ///
    /// @param checked tokens whose pages the step's checks have seen
    private int limit(Sequence sequence, int checked) {
        int first = sequence.length() - 1;
        int writable = PagePool.pagesFor(checked) * pool.pageTokens() - first;
        return Math.min(sequence.tokens().length - sequence.length() - 1, 1 + Math.max(0, writable));
    }

    /// Plans one row, for the position of its last token or draft but one, for each sequence that has so many drafts and may have
    /// more.
    private int further(int count, int drafted) {
        plan.clear();
        int kept = 0;
        for (int i = 0; i < count; i++) {
            Sequence sequence = drafters[i];
            PageTable pages = sequence.pages;
            if (limits[i] > drafted && pages != null) {
                int position = sequence.length() - 2 + drafted;
                sources[kept] = rowOf[i];
                rowOf[kept] = kept;
                plan.add(pages, sequence.tokens(), position + 1, 1, position, StepPlan.Logits.LAST);
                drafters[kept] = sequence;
                limits[kept++] = limits[i];
            }
        }
        return kept;
    }

    /// Takes a token for each sequence from the logits of its row; whose logits are no numbers, or give none, drafts no more.
    ///
    /// @param drafted drafts that each of them has
    /// @return how many go on
    private int take(int count, int drafted) {
        float[] logits = model.logits();
        for (int i = 0; i < count; i++) {
            Sequence sequence = drafters[i];
            int offset = rowOf[i] * model.vocabSize();
            int token = check.problem(logits, offset, false) == null
                    ? sequence.work.draft(sequence, drafted, logits, offset, check.best())
                    : Choice.NONE;
            if (token == Choice.NONE) {
                limits[i] = 0;
            } else {
                sequence.tokens()[sequence.length() + drafted] = token;
                sequence.drafts = drafted + 1;
            }
        }
        return count;
    }

    DraftStats stats() {
        return counts.stats();
    }

    /// Written by the loop's thread, read by any.
    private static final class Counts {
        private static final int POSITIONS = Speculation.MOST_TOKENS;

        private final AtomicLongArray values = new AtomicLongArray(2 * POSITIONS + 1);

        void offer(int drafts) {
            for (int i = 0; i < drafts; i++) {
                values.incrementAndGet(i);
            }
        }

        void accept(int position) {
            values.incrementAndGet(POSITIONS + position);
        }

        void step(boolean drafts) {
            if (drafts) {
                values.incrementAndGet(2 * POSITIONS);
            }
        }

        DraftStats stats() {
            long[] drafted = new long[POSITIONS];
            long[] accepted = new long[POSITIONS];
            for (int i = 0; i < POSITIONS; i++) {
                accepted[i] = values.get(POSITIONS + i);
                drafted[i] = values.get(i);
            }
            return DraftStats.of(values.get(2 * POSITIONS), drafted, accepted);
        }
    }
}

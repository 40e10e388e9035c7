package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.TimeUnit;
import millrace.engine.DraftStats;
import millrace.engine.FinishReason;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityLedger;
import millrace.engine.Sampling;
import millrace.engine.Speculation;
import millrace.engine.kv.PageGuard;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// Continuous batching: decides, step by step, which sequences share the next [StepPlan].
///
/// ```
///  step:  end what was cancelled or is past its deadline
///         admit waiting sequences, best rank first, while there are slots and pages
///         plan one row for each sequence that decodes, and one for each of its drafts, then chunks of prompts, prefillChunk
///         rows in all
///         forward, hand each sequence its logits, feed the draft layer, seal full pages, end those that are done
/// ```
///
/// **Budget.** A step has `prefillChunk` rows of prompts beside one row for each sequence that decodes: what decodes is
/// never held up for longer than such a step, and a prompt's share does not shrink when many decode.
///
/// **Rank** is priority, one step higher for each `agingMs` waited, then the earlier deadline, then order of
/// submission. Whoever waits and whoever runs ages alike, so only the time of submission counts:
/// `priority − ⌊submitted / agingMs⌋`. It is set once and a total order, also across preemptions. A sequence is
/// outranked by those of a priority d steps higher only if they come within (d + 1) · agingMs after it; so nothing
/// starves, unless `agingMs` is 0, which never ages. Within one such span and one priority the earliest deadline is
/// first.
///
/// **Pages** are taken as a sequence grows; when the pool is exhausted the sequence of lowest rank gives its pages back
/// and waits, to be computed again from its tokens, or what the prefix index has lost of them. What a sequence computes
/// does not depend on who shares its steps, so this costs time and changes no bit. In every step the sequence of
/// highest rank among the running goes on, at the cost of the others if need be: none that exceeds the whole pool is
/// ever accepted. As ranks never change, two sequences cannot take each other's pages in turns.
///
/// **Shared pages** are looked up at admission and before each chunk that begins at the end of sealed pages, since
/// another sequence may have computed them meanwhile.
///
/// A pure function of its state, the model and the clock; one thread.
final class Scheduler {
    private final StepModel model;
    private final PagePool pool;
    private final StepClock clock;
    private final IntegrityLedger ledger;
    private final WeightWatch watch;
    private final IntegrityConfig config;
    private final @Nullable PageGuard guard;
    private final int maxBatch;
    private final int prefillChunk;
    private final int maxLogitRows;
    private final long agingNanos;
    private final StepPlan plan;
    private final Sequence[] planned;
    private final Roster roster;
    private final ProductWatch products;
    private final @Nullable Drafting drafting;
    private final Delivery delivery;
    private final PriorityQueue<Sequence> waiting;

    /// In order of rank.
    private final List<Sequence> running;

    private final List<Sequence> expired = new ArrayList<>();
    private long tickets;
    private volatile long steps;
    private volatile long preemptions;

    Scheduler(StepModel model, PagePool pool, StepClock clock, BatchLoop.Limits limits, Checks checks) {
        maxBatch = limits.maxBatch();
        prefillChunk = limits.prefillChunk();
        maxLogitRows = limits.maxLogitRows();
        agingNanos = TimeUnit.MILLISECONDS.toNanos(limits.agingMs());
        this.model = model;
        this.pool = pool;
        this.clock = clock;
        ledger = checks.ledger();
        watch = checks.watch();
        config = checks.config();
        guard = pool.guard();
        roster = new Roster(pool, ledger, !config.isOff());
        products = new ProductWatch(checks.products(), ledger, roster, this::inspect);
        waiting = roster.waiting;
        running = roster.running;
        plan = new StepPlan(maxBatch, limits.maxRows());
        planned = new Sequence[maxBatch];
        drafting = limits.speculation().mode() == Speculation.Mode.OFF ? null : new Drafting(model, pool, clock, limits);
        delivery = new Delivery(model, roster, ledger, plan, planned, drafting, this::inspect);
    }

    void submit(Sequence sequence) {
        sequence.ticket = tickets++;
        long epoch = agingNanos == 0 ? 0 : Math.floorDiv(sequence.submittedNanos, agingNanos);
        sequence.standing = sequence.priority - epoch;
        waiting.add(sequence);
    }

    DraftStats drafts() {
        return drafting == null ? DraftStats.NONE : drafting.stats();
    }

    boolean idle() {
        return waiting.isEmpty() && running.isEmpty();
    }

    int runningCount() {
        return running.size();
    }

    long steps() {
        return steps;
    }

    long preemptions() {
        return preemptions;
    }

    /// Runs one step, if there is anything to compute. What a step gives while weights are known to be damaged is dropped.
    ///
    /// @return whether there was
    boolean step() {
        roster.expelForeign();
        expire();
        if (guard != null) {
            guard.beforeStep(steps);
        }
        if (ledger.admitting() || probing()) {
            admit();
        }
        do {
            fillPlan();
        } while (roster.mend() || !readable());
        if (plan.segmentCount() == 0 || watch.damaged()) {
            return false;
        }
        ledger.beginStep(steps + 1);
        if (drafting != null) {
            drafting.begin(plan, planned);
        }
        model.forward(plan);
        countStep();
        if (guard != null) {
            guard.afterStep(steps);
        }
        if (watch.damaged()) {
            return false;
        }
        if (!products.accept(steps, plan, planned)) {
            plan.clear();
            roster.mend();
            return true;
        }
        delivery.deliver(steps);
        roster.mend();
        return true;
    }

    /// Whether the step may read and write what it is about to. Otherwise whoever has other pages than its own, or damaged
    /// ones, is out of it.
    private boolean readable() {
        if (config.isOff()) {
            return true;
        }
        int foreign = plan.firstForeign();
        if (foreign >= 0) {
            roster.expel(planned[foreign]);
            return false;
        }
        if (guard != null && config.isStrict()) {
            for (int s = 0; s < plan.segmentCount(); s++) {
                planned[s].pagesVerified += plan.pages(s).queue(guard, PageGuard.Moment.READ);
            }
            guard.verifyQueued(PageGuard.Moment.READ);
        }
        return !roster.mend() && roster.allOwn(planned, model.firstForeign(plan));
    }

    /// Looks at some of the sealed pages, within the share of time that this may take.
    void walk() {
        if (guard != null) {
            guard.walk();
            roster.mend();
        }
    }

    /// Looks at all sealed pages and all weights.
    void inspect() {
        if (guard != null) {
            guard.verifyAll();
            roster.mend();
        }
        watch.verifyNow();
    }

    /// Whether there are sealed pages that the walk may look at.
    boolean watchesPages() {
        return guard != null && guard.hasSealed();
    }

    /// Faults of pages and numbers that were repaired.
    int repairs() {
        return roster.repairs;
    }

    /// Takes back all that came of steps from this one on: tokens are dropped, every page is given up, and whoever is not
    /// done is computed again. What cannot be taken back fails.
    void distrust(long fromStep) {
        roster.distrust(fromStep);
    }

    /// Ends everything with `FAILED` and empties the prefix index.
    void failAll(String errorCode, String errorMessage) {
        roster.failAll(errorCode, errorMessage);
    }

    private void expire() {
        long nowMs = clock.epochMs();
        expired.clear();
        // By number, as steps allocate nothing.
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (sequence.interruption(nowMs) != null) {
                expired.add(sequence);
            }
        }
        if (!waiting.isEmpty()) {
            expireWaiting(nowMs);
        }
        for (int i = 0; i < expired.size(); i++) {
            Sequence sequence = expired.get(i);
            waiting.remove(sequence);
            FinishReason reason = sequence.interruption(nowMs);
            roster.end(sequence, reason == null ? FinishReason.CANCELLED : reason, null, null);
        }
    }

    private void expireWaiting(long nowMs) {
        for (Sequence sequence : waiting) {
            if (sequence.interruption(nowMs) != null) {
                expired.add(sequence);
            }
        }
    }

    private boolean probing() {
        return probe() != null;
    }

    /// The golden prompt, if it waits.
    private @Nullable Sequence probe() {
        for (Sequence sequence : waiting) {
            if (sequence.probe) {
                return sequence;
            }
        }
        return null;
    }

    private void admit() {
        while (running.size() < maxBatch) {
            Sequence next = ledger.admitting() ? waiting.peek() : probe();
            if (next == null) {
                return;
            }
            next.undrafted = drafting != null
                    && drafting.leavesOut(next, Math.min(maxBatch, running.size() + waiting.size()));
            if (!hasRoomFor(next)) {
                return;
            }
            waiting.remove(next);
            next.pages = new PageTable(pool);
            int rank = running.size();
            while (rank > 0 && next.outranks(running.get(rank - 1))) {
                rank--;
            }
            running.add(rank, next);
            adopt(next);
        }
    }

    /// Skips what the prefix index has of the tokens that come next.
    private void adopt(Sequence sequence) {
        int tokens = pool.pageTokens();
        PageTable pages = pages(sequence);
        if (sequence.computed == pages.sealedTokens()) {
            long before = guard == null ? 0 : guard.verified();
            int most = sequence.reusablePages(tokens);
            int taken = pages.adopt(sequence.names(), sequence.tokens(), most, sequence.rewound());
            sequence.skip(taken * tokens);
            sequence.pagesVerified += guard == null ? 0 : (int) (guard.verified() - before);
        }
    }

    /// Whether the pool holds all tokens of the sequence beside what the running ones still need for theirs, and one
    /// page for each of them to grow: a sequence admitted with less would soon be preempted. Pages that it shares
    /// with running ones need no room.
    private boolean hasRoomFor(Sequence candidate) {
        if (running.isEmpty()) {
            return true;
        }
        int promised = running.size();
        for (Sequence sequence : running) {
            promised += Math.max(0, pagesFor(sequence.length()) - pages(sequence).pageCount());
        }
        int missing = pagesFor(candidate.length() + 1) - (pool.freePages() - promised);
        int reusable = candidate.reusablePages(pool.pageTokens());
        return missing <= 0
                || pool.index() != null
                        && missing <= reusable
                        && missing <= pool.index().heldPages(candidate.names(), candidate.tokens(), reusable);
    }

    private int pagesFor(int tokens) {
        return Math.ceilDiv(tokens, pool.pageTokens());
    }

    private void fillPlan() {
        plan.clear();
        if (running.isEmpty()) {
            return;
        }
        Sequence best = running.getFirst();
        adopt(best);
        makeRoom(best, best.decoding() ? best.length() : best.computed + 1);
        planDecodes();
        planPrefills();
        plan.feeding(drafting != null && Drafting.feeds(plan, planned));
    }

    /// First all get what they need, then drafts what is left.
    private void planDecodes() {
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (sequence.decoding()) {
                makeRoom(sequence, sequence.length());
            }
        }
        int left = maxLogitRows - running.size();
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (sequence.decoding()) {
                int drafts = sequence.drafts == 0 ? 0 : Drafting.room(sequence, pages(sequence), pool, left, running.size());
                left -= drafts;
                add(sequence, 1 + drafts, drafts > 0 ? StepPlan.Logits.ALL : sequence.work.wanted());
            }
        }
    }

    /// Makes room for so many tokens of the sequence at the cost of those of lower rank, none of which is planned yet.
    /// False if it had to give way itself.
    private boolean makeRoom(Sequence sequence, int tokens) {
        while (!pages(sequence).ensure(tokens)) {
            if (running.size() == 1) {
                int retired = guard == null ? 0 : guard.retired();
                if (retired == 0) {
                    throw new IllegalStateException("scheduler: sequence " + sequence.id + " with " + sequence.length()
                            + " tokens does not fit " + pool.pageCount() + " pages of " + pool.pageTokens() + " tokens");
                }
                roster.end(sequence, FinishReason.FAILED, "KV_RETIRED", "KV cache: expected pages for " + tokens
                        + " tokens, got " + pool.freePages() + " of " + pool.pageCount() + " free and " + retired
                        + " retired as their memory was damaged; check the memory of this machine and restart");
                return false;
            }
            if (trimDrafts()) {
                continue;
            }
            Sequence victim = running.getLast();
            preempt(victim);
            if (victim == sequence) {
                return false;
            }
        }
        return true;
    }

    /// Takes back pages that were taken for drafts alone; before any is planned.
    private boolean trimDrafts() {
        boolean any = false;
        for (int i = 0; drafting != null && i < running.size(); i++) {
            Sequence sequence = running.get(i);
            any |= pages(sequence).trim(Math.min(sequence.length(), sequence.computed + 1));
        }
        return any;
    }

    private void planPrefills() {
        int rowsLeft = prefillChunk;
        int logitRowsLeft = maxLogitRows - plan.logitRowCount();
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (sequence.decoding() || rowsLeft == 0) {
                continue;
            }
            adopt(sequence);
            boolean all = sequence.work.wanted() == StepPlan.Logits.ALL;
            int rows = Math.min(rowsLeft, sequence.length() - sequence.computed);
            StepPlan.Logits wanted;
            if (all && sequence.computed < sequence.delivered) {
                rows = Math.min(rows, sequence.delivered - sequence.computed);
                wanted = StepPlan.Logits.NONE;
            } else if (all) {
                rows = Math.min(rows, logitRowsLeft);
                wanted = StepPlan.Logits.ALL;
            } else {
                wanted = StepPlan.Logits.LAST;
            }
            rows = Math.min(rows, roomFor(sequence));
            if (rows <= 0) {
                continue;
            }
            if (wanted == StepPlan.Logits.LAST && sequence.computed + rows < sequence.length()) {
                wanted = StepPlan.Logits.NONE;
            }
            if (wanted == StepPlan.Logits.LAST && logitRowsLeft == 0) {
                continue;
            }
            if (!pages(sequence).ensure(sequence.computed + rows)) {
                continue;
            }
            add(sequence, rows, wanted);
            rowsLeft -= rows;
            logitRowsLeft = maxLogitRows - plan.logitRowCount();
        }
    }

    /// Tokens that can follow the computed ones without anyone giving way.
    private int roomFor(Sequence sequence) {
        long tokens = (long) (pages(sequence).pageCount() + pool.freePages()) * pool.pageTokens();
        return (int) Math.min(Integer.MAX_VALUE, tokens - sequence.computed);
    }

    private void add(Sequence sequence, int rows, StepPlan.Logits wanted) {
        if (sequence.firstStepNanos < 0) {
            sequence.firstStepNanos = clock.nanos();
        }
        planned[plan.segmentCount()] = sequence;
        plan.add(pages(sequence), sequence.tokens(), sequence.computed, rows, sequence.computed, wanted);
        Sampling sampling = wanted == StepPlan.Logits.NONE ? null : sequence.work.drawn();
        if (sampling != null) {
            plan.draw(sampling, sequence.tokens(), sequence.length(), sequence.generated());
        }
    }

    private static PageTable pages(Sequence sequence) {
        PageTable pages = sequence.pages;
        if (pages == null) {
            throw new IllegalStateException("scheduler: sequence " + sequence.id + " runs without pages");
        }
        return pages;
    }

    private void preempt(Sequence sequence) {
        countPreemption();
        roster.preempt(sequence);
    }

    // Only the loop's thread writes, so read-modify-write needs no lock; volatile is for the readers.
    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void countStep() {
        steps++;
    }

    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    private void countPreemption() {
        preemptions++;
    }
}

package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import millrace.engine.FinishReason;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// Continuous batching: decides, step by step, which sequences share the next [StepPlan].
///
/// ```
///  step:  end what was cancelled or is past its deadline
///         admit waiting sequences, best rank first, while there are slots and pages
///         plan one row for each sequence that decodes, then chunks of prompts, prefillChunk rows in all
///         forward, hand each sequence its logits, end those that are done
/// ```
///
/// Rank is priority, then order of submission. Pages are taken as a sequence grows; when the pool is exhausted the
/// sequence of lowest rank gives its pages back and waits at the front of its priority, to be computed again from its
/// tokens. What a sequence computes does not depend on who shares its steps, so this costs time and changes no bit. The
/// sequence of highest rank can always go on, since no sequence that exceeds the whole pool is ever accepted.
///
/// A pure function of its state, the model and the clock; one thread.
final class Scheduler {
    private final StepModel model;
    private final PagePool pool;
    private final StepClock clock;
    private final int maxBatch;
    private final int prefillChunk;
    private final int maxLogitRows;
    private final StepPlan plan;
    private final Sequence[] planned;
    private final PriorityQueue<Sequence> waiting = new PriorityQueue<>((a, b) -> a.outranks(b) ? -1 : 1);

    /// In order of rank.
    private final List<Sequence> running = new ArrayList<>();

    private final List<Sequence> expired = new ArrayList<>();
    private long tickets;
    private long steps;
    private long preemptions;

    Scheduler(StepModel model, PagePool pool, StepClock clock, int maxBatch, int prefillChunk, int maxLogitRows) {
        if (maxBatch < 1 || prefillChunk < 1 || maxLogitRows < maxBatch) {
            throw new IllegalArgumentException("scheduler: expected maxBatch and prefillChunk of at least 1 and a logit "
                    + "row for each sequence, got " + maxBatch + ", " + prefillChunk + " and " + maxLogitRows + " rows");
        }
        this.model = model;
        this.pool = pool;
        this.clock = clock;
        this.maxBatch = maxBatch;
        this.prefillChunk = prefillChunk;
        this.maxLogitRows = maxLogitRows;
        plan = new StepPlan(maxBatch, maxBatch + prefillChunk);
        planned = new Sequence[maxBatch];
    }

    void submit(Sequence sequence) {
        sequence.ticket = tickets++;
        waiting.add(sequence);
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

    /// Runs one step; does nothing when idle.
    void step() {
        expire();
        admit();
        fillPlan();
        if (plan.segmentCount() > 0) {
            model.forward(plan);
            steps++;
            deliver();
        }
    }

    /// Ends everything with `FAILED`.
    void failAll(String errorCode, String errorMessage) {
        List<Sequence> all = new ArrayList<>(running);
        all.addAll(waiting);
        running.clear();
        waiting.clear();
        for (Sequence sequence : all) {
            end(sequence, FinishReason.FAILED, errorCode, errorMessage);
        }
    }

    private void expire() {
        long nowMs = clock.epochMs();
        expired.clear();
        for (Sequence sequence : running) {
            if (sequence.interruption(nowMs) != null) {
                expired.add(sequence);
            }
        }
        for (Sequence sequence : waiting) {
            if (sequence.interruption(nowMs) != null) {
                expired.add(sequence);
            }
        }
        for (Sequence sequence : expired) {
            if (!running.remove(sequence)) {
                waiting.remove(sequence);
            }
            FinishReason reason = sequence.interruption(nowMs);
            end(sequence, reason == null ? FinishReason.CANCELLED : reason, null, null);
        }
    }

    private void admit() {
        while (running.size() < maxBatch) {
            Sequence next = waiting.peek();
            if (next == null || !hasRoomFor(next)) {
                return;
            }
            waiting.poll();
            next.pages = new PageTable(pool);
            int rank = running.size();
            while (rank > 0 && next.outranks(running.get(rank - 1))) {
                rank--;
            }
            running.add(rank, next);
        }
    }

    /// Whether the pool holds all tokens of the sequence beside what the running ones still need for theirs, and one
    /// page for each of them to grow: a sequence admitted with less would soon be preempted.
    private boolean hasRoomFor(Sequence candidate) {
        if (running.isEmpty()) {
            return true;
        }
        int promised = running.size();
        for (Sequence sequence : running) {
            promised += pagesFor(sequence.length()) - pagesFor(sequence.computed);
        }
        return pool.freePages() - promised >= pagesFor(candidate.length() + 1);
    }

    private int pagesFor(int tokens) {
        return Math.ceilDiv(tokens, pool.pageTokens());
    }

    private void fillPlan() {
        plan.clear();
        planDecodes();
        planPrefills();
        while (plan.segmentCount() == 0 && !running.isEmpty()) {
            if (running.size() == 1) {
                throw new IllegalStateException("scheduler: sequence " + running.getFirst().id + " with "
                        + running.getFirst().length() + " tokens does not fit " + pool.pageCount() + " pages of "
                        + pool.pageTokens() + " tokens");
            }
            preempt(running.getLast());
            planPrefills();
        }
    }

    private void planDecodes() {
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            if (sequence.decoding() && makeRoom(sequence)) {
                add(sequence, 1, sequence.work.wanted());
            }
        }
    }

    /// Makes room for the sequence's next token at the cost of those of lower rank, none of which is planned yet.
    /// False if it had to give way itself.
    private boolean makeRoom(Sequence sequence) {
        while (!pages(sequence).ensure(sequence.length())) {
            Sequence victim = running.getLast();
            preempt(victim);
            if (victim == sequence) {
                return false;
            }
        }
        return true;
    }

    private void planPrefills() {
        int rowsLeft = prefillChunk;
        int logitRowsLeft = maxLogitRows - plan.logitRowCount();
        for (Sequence sequence : running) {
            if (sequence.decoding() || rowsLeft == 0) {
                continue;
            }
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
        long tokens = (long) (pagesFor(sequence.computed) + pool.freePages()) * pool.pageTokens();
        return (int) Math.min(Integer.MAX_VALUE, tokens - sequence.computed);
    }

    private void add(Sequence sequence, int rows, StepPlan.Logits wanted) {
        if (sequence.firstStepNanos < 0) {
            sequence.firstStepNanos = clock.nanos();
        }
        planned[plan.segmentCount()] = sequence;
        plan.add(pages(sequence), sequence.tokens(), sequence.computed, rows, sequence.computed, wanted);
    }

    private static PageTable pages(Sequence sequence) {
        PageTable pages = sequence.pages;
        if (pages == null) {
            throw new IllegalStateException("scheduler: sequence " + sequence.id + " runs without pages");
        }
        return pages;
    }

    private void preempt(Sequence sequence) {
        preemptions++;
        running.remove(sequence);
        sequence.rewind();
        waiting.add(sequence);
    }

    private void deliver() {
        float[] logits = model.logits();
        int row = 0;
        int segments = plan.segmentCount();
        for (int s = 0; s < segments; s++) {
            Sequence sequence = planned[s];
            int rows = plan.rows(s);
            sequence.computed += rows;
            sequence.steps++;
            sequence.maxBatch = Math.max(sequence.maxBatch, segments);
            int first = switch (plan.wanted(s)) {
                case NONE -> rows;
                case LAST -> rows - 1;
                case ALL -> 0;
            };
            deliver(sequence, plan.startPosition(s) + first, rows - first, logits, row);
            row += rows - first;
        }
        plan.clear();
    }

    private void deliver(Sequence sequence, int position, int rows, float[] logits, int row) {
        for (int i = 0; i < rows; i++) {
            Work.Outcome outcome = sequence.work.accept(sequence, position + i, logits, (row + i) * model.vocabSize());
            switch (outcome) {
                case CONTINUE -> sequence.delivered = position + i + 1;
                case STOP -> {
                    leave(sequence, FinishReason.STOP, null, null);
                    return;
                }
                case LENGTH -> {
                    leave(sequence, FinishReason.LENGTH, null, null);
                    return;
                }
                case NOT_FINITE -> {
                    notFinite(sequence, position + i);
                    return;
                }
            }
        }
    }

    /// The first time the sequence is computed again from its tokens, which repairs a fault that has passed; the second
    /// time it fails. A token is never chosen from such logits.
    private void notFinite(Sequence sequence, int position) {
        sequence.numericGuard = false;
        sequence.numericFailures++;
        if (sequence.numericFailures == 1) {
            running.remove(sequence);
            sequence.rewind();
            waiting.add(sequence);
        } else {
            leave(sequence, FinishReason.FAILED, "ENGINE_NUMERIC", "logits at position " + position
                    + ": expected finite numbers, got NaN or infinity, also when computed again; "
                    + "check the model files and the memory of this machine");
        }
    }

    private void leave(
            Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
        running.remove(sequence);
        end(sequence, reason, errorCode, errorMessage);
    }

    private static void end(
            Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
        if (sequence.pages != null) {
            sequence.pages.release();
            sequence.pages = null;
        }
        sequence.work.end(sequence, reason, errorCode, errorMessage);
    }
}

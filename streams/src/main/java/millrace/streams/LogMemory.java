package millrace.streams;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;
import millrace.engine.IntegrityEvent;

/// What this process remembers of one log that it writes: the step that gave the last token of each answer, and the last
/// of the engine's events that the log has.
///
/// It is kept in memory because doubt ends with the process: a damaged block of weights is one of this process's memory,
/// its checksums are too, and the next process reads the files anew. Damage that nobody has found by then is never found,
/// so no later event could name answers of before. It outlives a task, since a task may leave and come back, and Kafka
/// Streams may be built anew, while the engine goes on.
///
/// Bounded: of the oldest answers beyond [#MOST_ANSWERS] only the largest step is kept, and an event that reaches back to
/// them names all leaves since this process's first.
final class LogMemory {
    static final int MOST_ANSWERS = 1 << 17;
    private static final int MOST_NOTES = 4_096;
    private static final int MOST_STINTS = 64;

    /// Leaves of the log, both ends included.
    ///
    /// @param widened whether it may hold answers that are not in doubt, for memory did not reach back far enough
    record Range(long from, long to, boolean widened) {
        /// No leaf of a log of this size.
        static Range none(long size) {
            return new Range(size, size - 1, false);
        }

        long leaves() {
            return to - from + 1;
        }
    }

    private record Note(long seq, long event) {}

    /// Asked for a passed canary at a time (milliseconds since the epoch): whether this log is the one to have it.
    private final LongPredicate regularCanary;
    private final int mostAnswers;
    private final ArrayDeque<Note> notes = new ArrayDeque<>();
    /// First leaves that this process wrote each time that it took the log over.
    private final ArrayDeque<Long> stints = new ArrayDeque<>();
    private long[] seqs = new long[64];
    private long[] steps = new long[64];
    private int head;
    private int count;
    private long firstSeq = -1;
    private long forgottenStep = -1;
    private long forgottenSeq = -1;
    private long seen;
    private boolean canaryDue = true;
    private boolean scrubDue = true;

    LogMemory(LongPredicate regularCanary) {
        this(regularCanary, MOST_ANSWERS);
    }

    LogMemory(LongPredicate regularCanary, int mostAnswers) {
        this.regularCanary = regularCanary;
        this.mostAnswers = mostAnswers;
    }

    /// Forgets what was rolled back with a transaction: the log has `size` leaves. Events whose leaves are gone are to be
    /// written again.
    synchronized void rewind(long size) {
        rewind(size, seq -> true);
    }

    /// The same of a log that others may have written meanwhile: where a leaf of this process was rolled back may stand one
    /// of another.
    ///
    /// @param own says of a leaf of the log whether this process may have written it
    synchronized void rewind(long size, LongPredicate own) {
        while (count > 0 && (seqs[at(count - 1)] >= size || !own.test(seqs[at(count - 1)]))) {
            count--;
        }
        while (!stints.isEmpty() && stints.getLast() >= size) {
            stints.removeLast();
        }
        while (!notes.isEmpty() && (notes.getLast().seq() >= size || !own.test(notes.getLast().seq()))) {
            seen = notes.removeLast().event() - 1;
            canaryDue = true;
            scrubDue = true;
        }
        if (firstSeq >= size) {
            firstSeq = -1;
            forgottenStep = -1;
        }
    }

    /// Number of the last event that was taken up.
    synchronized long seen() {
        return seen;
    }

    /// Takes an event up, and says whether it gets a leaf of this log: what is not as it should be always does; a passed
    /// canary or a finished pass over the weights does when it is the first since the load or since a fault, and a later
    /// canary when it is this log's turn.
    ///
    /// @param seq of the leaf if it gets one
    synchronized boolean take(IntegrityEvent event, long seq) {
        seen = event.number();
        boolean taken = switch (event.kind()) {
            case CANARY, SCRUB, WEIGHT, KV_PAGE, COMPUTE, MODEL_FILE, META, DEVICE -> event.result() != IntegrityEvent.Result.PASSED;
        };
        if (taken) {
            canaryDue = true;
            scrubDue = true;
        } else if (event.kind() == IntegrityEvent.Kind.CANARY) {
            taken = canaryDue | regularCanary.test(event.epochMs());
            canaryDue = false;
        } else if (event.kind() == IntegrityEvent.Kind.SCRUB) {
            taken = scrubDue;
            scrubDue = false;
        }
        if (taken) {
            notes.addLast(new Note(seq, event.number()));
            if (notes.size() > MOST_NOTES) {
                notes.removeFirst();
            }
        }
        return taken;
    }

    /// This process begins to write, again if it did before: what stands between may be of others.
    synchronized void began(long seq) {
        stints.addLast(seq);
        if (stints.size() > MOST_STINTS) {
            stints.removeFirst();
        }
    }

    private boolean isInterrupted(long afterSeq, long seq) {
        return stints.stream().anyMatch(stint -> afterSeq < stint && stint <= seq);
    }

    /// A leaf of this process was appended.
    synchronized void wrote(long seq) {
        if (firstSeq < 0) {
            firstSeq = seq;
        }
    }

    /// An answer was appended.
    ///
    /// @param lastStep the step that gave its last token; 0 for an answer without any, which nothing can bring into doubt
    synchronized void answered(long seq, long lastStep) {
        if (lastStep <= 0) {
            return;
        }
        if (count == mostAnswers) {
            forgottenStep = Math.max(forgottenStep, steps[head]);
            forgottenSeq = seqs[head];
            head = (head + 1) % seqs.length;
            count--;
        } else if (count == seqs.length) {
            grow();
        }
        seqs[at(count)] = seq;
        steps[at(count)] = lastStep;
        count++;
    }

    private void grow() {
        int length = Math.min(mostAnswers, 2 * seqs.length);
        long[] moreSeqs = new long[length];
        long[] moreSteps = new long[length];
        for (int i = 0; i < count; i++) {
            moreSeqs[i] = seqs[at(i)];
            moreSteps[i] = steps[at(i)];
        }
        seqs = moreSeqs;
        steps = moreSteps;
        head = 0;
    }

    private int at(int index) {
        return (head + index) % seqs.length;
    }

    /// The answers of this process whose last token came at `fromStep` or later, as ranges between which stands an answer
    /// that is not in doubt. Leaves in a range that are no answers are not meant.
    synchronized List<Range> suspects(long fromStep) {
        List<Range> ranges = new ArrayList<>();
        long from = -1;
        long to = -1;
        boolean widened = false;
        if (forgottenStep >= fromStep) {
            from = firstSeq;
            to = forgottenSeq;
            widened = true;
        }
        for (int i = 0; i < count; i++) {
            if (from >= 0 && isInterrupted(to, seqs[at(i)])) {
                ranges.add(new Range(from, to, widened));
                from = -1;
                widened = false;
            }
            if (steps[at(i)] >= fromStep) {
                from = from < 0 ? seqs[at(i)] : from;
                to = seqs[at(i)];
            } else if (from >= 0) {
                ranges.add(new Range(from, to, widened));
                from = -1;
                widened = false;
            }
        }
        if (from >= 0) {
            ranges.add(new Range(from, to, widened));
        }
        return ranges;
    }

    /// How many answers are remembered by their step.
    synchronized int remembered() {
        return count;
    }
}

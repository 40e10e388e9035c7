package millrace.streams;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;
import millrace.engine.IntegrityEvent;
import millrace.integrity.Origin;
import org.jspecify.annotations.Nullable;

/// What this process remembers of the logs of one partition that it writes, one after another: the step that gave the last
/// token of each answer, and the last of the engine's events that the log has.
///
/// It is kept in memory because doubt ends with the process: a damaged block of weights is one of this process's memory,
/// its checksums are too, and the next process reads the files anew. Damage that nobody has found by then is never found,
/// so no later event could name answers of before. It outlives a task, since a task may leave and come back, and Kafka
/// Streams may be built anew, while the engine goes on; and it outlives a log, since the answers of one that has ended stay
/// in doubt.
///
/// Bounded: of the oldest answers beyond [#MOST_ANSWERS], and of those in all but the newest of the logs that have ended, only
/// the largest step is kept, and an event that reaches back to them names all leaves since this process's first. Beyond
/// [#MOST_ENDED] logs that have ended nothing is kept.
final class LogMemory {
    static final int MOST_ANSWERS = 1 << 17;
    private static final int MOST_NOTES = 4_096;
    private static final int MOST_ENDED = 64;

    /// Leaves of a log, both ends included.
    ///
    /// @param origin name of the log
    /// @param widened whether it may hold answers that are not in doubt, for memory did not reach back far enough
    record Range(String origin, long from, long to, boolean widened) {
        /// No leaf of a log of this size.
        static Range none(String origin, long size) {
            return new Range(origin, size, size - 1, false);
        }

        long leaves() {
            return to - from + 1;
        }
    }

    /// What the log says of itself when it is opened.
    ///
    /// @param origin its name
    /// @param size its leaves
    /// @param own says of a leaf whether this process may have written it
    /// @param before the same of the log before it, null where that is not known
    record Opened(Origin origin, long size, LongPredicate own, @Nullable Opened before) {}

    private record Note(int epoch, long seq, long event) {}

    /// Asked for a passed canary at a time (milliseconds since the epoch): whether this log is the one to have it.
    private final LongPredicate regularCanary;
    private final int mostAnswers;
    private final ArrayDeque<Note> notes = new ArrayDeque<>();
    /// Logs that have ended, oldest first.
    private final ArrayDeque<LogAnswers> ended = new ArrayDeque<>();
    private LogAnswers answers;
    private int epoch;
    private long seen;
    private boolean canaryDue = true;
    private boolean scrubDue = true;

    LogMemory(LongPredicate regularCanary) {
        this(regularCanary, MOST_ANSWERS);
    }

    LogMemory(LongPredicate regularCanary, int mostAnswers) {
        this.regularCanary = regularCanary;
        this.mostAnswers = mostAnswers;
        answers = new LogAnswers("", mostAnswers);
    }

    /// Forgets what was rolled back with a transaction. Events whose leaves are gone are to be written again.
    synchronized void open(Opened log) {
        String origin = log.origin().text();
        if (answers.origin().isEmpty()) {
            begin(log.origin());
        }
        while (!answers.origin().equals(origin) && ended.stream().anyMatch(old -> old.origin().equals(origin))) {
            // The end of that log was rolled back.
            answers = ended.removeLast();
            epoch = Origin.parse(answers.origin()).epoch();
        }
        if (answers.origin().equals(origin)) {
            rewind(log);
        } else {
            endedElsewhere(log);
        }
    }

    private void rewind(Opened log) {
        answers.rewind(log.size(), log.own());
        Opened before = log.before();
        if (before != null && !ended.isEmpty() && ended.getLast().origin().equals(before.origin().text())) {
            // This process may have ended it as well, in a transaction that was rolled back.
            ended.getLast().rewind(before.size(), before.own());
        }
        while (!notes.isEmpty() && isRolledBack(notes.getLast(), log)) {
            takeBackNote();
        }
    }

    private static boolean isRolledBack(Note note, Opened log) {
        int opened = log.origin().epoch();
        if (note.epoch() >= opened) {
            return note.epoch() > opened || note.seq() >= log.size() || !log.own().test(note.seq());
        }
        return log.before() != null && isRolledBack(note, log.before());
    }

    private void takeBackNote() {
        seen = notes.removeLast().event() - 1;
        canaryDue = true;
        scrubDue = true;
    }

    /// Another process has ended the log that this one remembers. What is known of that one's end tells which leaves are
    /// this process's own; where nothing is known, nothing is remembered.
    private void endedElsewhere(Opened log) {
        Opened before = log.before();
        if (before != null && before.origin().text().equals(answers.origin())) {
            rewind(before);
            end(log.origin());
        } else {
            ended.clear();
            while (!notes.isEmpty()) {
                takeBackNote();
            }
            begin(log.origin());
        }
    }

    private void begin(Origin origin) {
        answers = new LogAnswers(origin.text(), mostAnswers);
        epoch = origin.epoch();
    }

    /// The log ends here, and another begins.
    synchronized void end(Origin next) {
        ended.forEach(LogAnswers::forget);
        ended.addLast(answers);
        if (ended.size() > MOST_ENDED) {
            ended.removeFirst();
        }
        begin(next);
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
            notes.addLast(new Note(epoch, seq, event.number()));
            if (notes.size() > MOST_NOTES) {
                notes.removeFirst();
            }
        }
        return taken;
    }

    /// This process begins to write, again if it did before: what stands between may be of others.
    synchronized void began(long seq) {
        answers.began(seq);
    }

    /// A leaf of this process was appended.
    synchronized void wrote(long seq) {
        answers.wrote(seq);
    }

    /// An answer was appended.
    ///
    /// @param lastStep the step that gave its last token; 0 for an answer without any, which nothing can bring into doubt
    synchronized void answered(long seq, long lastStep) {
        if (lastStep > 0) {
            answers.add(seq, lastStep);
        }
    }

    /// The answers of this process whose last token came at `fromStep` or later, as ranges between which stands an answer
    /// that is not in doubt; those of logs that have ended come first. Leaves in a range that are no answers are not meant.
    synchronized List<Range> suspects(long fromStep) {
        List<Range> ranges = new ArrayList<>();
        ended.forEach(log -> ranges.addAll(log.suspects(fromStep)));
        ranges.addAll(answers.suspects(fromStep));
        return ranges;
    }

    /// How many answers of the present log are remembered by their step.
    synchronized int remembered() {
        return answers.size();
    }
}

package millrace.streams;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongPredicate;
import millrace.streams.LogMemory.Range;

/// The answers that this process wrote to one log, each with the step that gave its last token, in order of their leaves.
///
/// Bounded: of the oldest answers beyond the bound only the largest step is kept, and an event that reaches back to them
/// names all leaves since this process's first.
final class LogAnswers {
    private static final int MOST_STINTS = 64;

    private final String origin;
    private final int most;
    /// First leaves that this process wrote each time that it took the log over.
    private final ArrayDeque<Long> stints = new ArrayDeque<>();
    private long[] seqs = new long[64];
    private long[] steps = new long[64];
    private int head;
    private int count;
    private long firstSeq = -1;
    private long forgottenStep = -1;
    private long forgottenSeq = -1;

    /// @param origin name of the log
    /// @param most answers that are remembered by their step
    LogAnswers(String origin, int most) {
        this.origin = origin;
        this.most = most;
    }

    String origin() {
        return origin;
    }

    /// Forgets leaves that were rolled back: the log has `size` of them.
    ///
    /// @param own says of a leaf of the log whether this process may have written it
    void rewind(long size, LongPredicate own) {
        while (count > 0 && (seqs[at(count - 1)] >= size || !own.test(seqs[at(count - 1)]))) {
            count--;
        }
        while (!stints.isEmpty() && stints.getLast() >= size) {
            stints.removeLast();
        }
        forgottenSeq = Math.min(forgottenSeq, size - 1);
        if (firstSeq >= size) {
            firstSeq = -1;
            forgottenStep = -1;
        }
    }

    /// This process begins to write, again if it did before: what stands between may be of others.
    void began(long seq) {
        stints.addLast(seq);
        if (stints.size() > MOST_STINTS) {
            stints.removeFirst();
        }
    }

    private boolean isInterrupted(long afterSeq, long seq) {
        return stints.stream().anyMatch(stint -> afterSeq < stint && stint <= seq);
    }

    /// A leaf was appended.
    void wrote(long seq) {
        if (firstSeq < 0) {
            firstSeq = seq;
        }
    }

    /// An answer was appended.
    void add(long seq, long lastStep) {
        if (count == most) {
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
        int length = Math.min(most, 2 * seqs.length);
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

    /// Keeps of all answers only the largest step.
    void forget() {
        for (int i = 0; i < count; i++) {
            forgottenStep = Math.max(forgottenStep, steps[at(i)]);
            forgottenSeq = Math.max(forgottenSeq, seqs[at(i)]);
        }
        count = 0;
        head = 0;
        seqs = new long[1];
        steps = new long[1];
    }

    /// The answers whose last token came at `fromStep` or later, as ranges between which stands an answer that is not in
    /// doubt. Leaves in a range that are no answers are not meant.
    List<Range> suspects(long fromStep) {
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
                ranges.add(new Range(origin, from, to, widened));
                from = -1;
                widened = false;
            }
            if (steps[at(i)] >= fromStep) {
                from = from < 0 ? seqs[at(i)] : from;
                to = seqs[at(i)];
            } else if (from >= 0) {
                ranges.add(new Range(origin, from, to, widened));
                from = -1;
                widened = false;
            }
        }
        if (from >= 0) {
            ranges.add(new Range(origin, from, to, widened));
        }
        return ranges;
    }

    /// How many are remembered by their step.
    int size() {
        return count;
    }
}

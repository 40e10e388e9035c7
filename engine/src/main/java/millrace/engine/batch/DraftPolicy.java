package millrace.engine.batch;

import java.util.Arrays;

/// Decides how many tokens are drafted for each sequence, by what was measured here: what steps take, and how often drafts are
/// right.
///
/// ```
///  tokens of a step     1 + p₁ + p₁ p₂ + …      pⱼ: how often the j-th draft is right if all before it are
///  its time             the median of the last steps with so many sequences and so many drafts
///  choice               the most tokens per time; another one than now only if it gives 2 % more
///  drafted at all       unless a step that is not even fed to the draft layer gives more than the best of them
/// ```
///
/// Times are kept apart by number of sequences, a fifth more at most within one range: how much drafts add to a step is what the
/// number decides. Every depth is tried once; later one of those that were not chosen is tried every [#PROBE_EVERY] steps, in turn,
/// for [#PROBE_STEPS] steps that can be measured, since contexts grow and machines get other work.
///
/// ```
///  drafted ── not even no drafts pay ──▶ undrafted        of sequences that begin; who has begun stays what it is
///     ▲                                      │
///     └── all depths are measured anew ◀─────┘            after [#REST] steps, or 16 times those that the last look took
/// ```
///
/// What a step without feeding takes is known from steps without drafts, less what feeding took, and from steps of undrafted
/// sequences alone. Outputs do not depend on any of this.
///
/// A function of what it was told; used by one thread, allocates nothing after construction.
final class DraftPolicy {
    /// Steps from one trial of another depth to the next.
    static final int PROBE_EVERY = 256;

    /// Steps that are measured in a trial: most of the times that a median is made of.
    static final int PROBE_STEPS = 5;

    /// The least steps between two looks at whether drafts pay again.
    static final int REST = 1024;

    /// How much longer that time is than a look: it takes until those have ended that run undrafted, and until those have ended that
    /// were drafted for it.
    private static final int REST_TIMES = 16;

    private static final int MOST_REST = 1 << 16;

    /// Steps that a trial may take: some cannot be measured, as they have prompts beside.
    private static final int PROBE_PATIENCE = 32;

    private static final int TIMES = 7;
    private static final double BETTER = 1.02;

    /// The least weight of one draft among those of its position.
    private static final double WEIGHT = 1.0 / 64;

    /// Before drafts were met: as if one of two had been right.
    private static final double UNMET = 0.5;

    private static final int UNMET_COUNT = 2;

    private static final int NONE = -1;

    private final int most;
    private final double[] right;
    private final long[] met;
    private final Range[] ranges;
    private final long[] scratch = new long[TIMES];

    /// @param most the most drafts of a sequence
    /// @param maxSequences the most sequences of a step
    DraftPolicy(int most, int maxSequences) {
        this.most = most;
        right = new double[most];
        Arrays.fill(right, UNMET);
        met = new long[most];
        ranges = new Range[range(maxSequences) + 1];
        Arrays.setAll(ranges, i -> new Range(most));
    }

    /// What is known of steps of about so many sequences.
    private static final class Range {
        final long[][] nanos;
        final long[] count;

        /// Of steps that are not fed to the draft layer.
        final long[] bareNanos = new long[TIMES];

        long bareCount;

        /// Whether sequences that begin are undrafted.
        boolean undrafted;

        /// Whether they were, until this look.
        boolean before;

        /// Steps to the next look.
        int rest;

        /// Steps of this look in which something was not measured yet.
        int looked;

        /// The depth that pays most.
        int chosen;

        /// The depth that is tried now, or [#NONE].
        int trial = NONE;

        /// Steps that were measured in the trial, and those that it had.
        int measured;

        int tried;

        /// Steps to the next trial.
        int wait;

        /// Which of the other depths was tried last.
        int turn;

        Range(int most) {
            nanos = new long[most + 1][TIMES];
            count = new long[most + 1];
            chosen = most;
        }
    }

    /// Four ranges to a doubling.
    private static int range(int sequences) {
        return (int) Math.round(4 * Math.log(sequences) / Math.log(2));
    }

    /// A draft was met by the token that was chosen there, as all drafts before it were right.
    ///
    /// @param position 0 for the first draft of a sequence
    void judge(int position, boolean wasRight) {
        double weight = Math.max(WEIGHT, 1.0 / (UNMET_COUNT + ++met[position]));
        right[position] += weight * ((wasRight ? 1 : 0) - right[position]);
    }

    /// Whether a sequence that begins is fed to the draft layer.
    ///
    /// @param sequences that run with it, itself included
    boolean drafts(int sequences) {
        return !ranges[range(sequences)].undrafted;
    }

    /// A step of so many decoding sequences begins.
    void step(int sequences) {
        Range range = ranges[range(sequences)];
        if (!range.undrafted) {
            if (range.looked < MOST_REST && unmeasured(range) != NONE) {
                range.looked++;
            }
        } else if (--range.rest <= 0) {
            range.undrafted = false;
            range.looked = 0;
            range.bareCount = 0;
            range.trial = NONE;
            range.wait = 0;
            Arrays.fill(range.count, 0);
        }
    }

    /// How many tokens are drafted for each of the sequences that the next step goes on with, but undrafted ones.
    ///
    /// @param all whether there are no undrafted ones: such a step would tell nothing of a depth
    int depth(int sequences, boolean all) {
        Range range = ranges[range(sequences)];
        if (!all) {
            return range.chosen;
        }
        if (range.trial >= 0) {
            boolean measured = range.measured == PROBE_STEPS;
            if (measured || range.tried == PROBE_PATIENCE) {
                range.trial = NONE;
                range.wait = measured && unmeasured(range) != NONE ? 0 : PROBE_EVERY;
                choose(range);
            }
        }
        if (range.trial == NONE && range.wait-- == 0) {
            int first = unmeasured(range);
            range.turn = (range.turn + 1) % most;
            range.trial = first == NONE ? (range.chosen + 1 + range.turn) % (most + 1) : first;
            range.measured = 0;
            range.tried = 0;
        }
        if (range.trial == NONE) {
            return range.chosen;
        }
        range.tried++;
        return range.trial;
    }

    /// A step of so many sequences, and of nothing else, took so long: it had so many drafts of each to check, and as many were
    /// drafted behind it.
    ///
    /// @param fed what of it the draft layer took to consume what was confirmed
    void took(int sequences, int depth, long nanos, long fed) {
        Range range = ranges[range(sequences)];
        range.nanos[depth][(int) (range.count[depth]++ % TIMES)] = nanos;
        if (depth == 0) {
            range.bareNanos[(int) (range.bareCount++ % TIMES)] = nanos - fed;
        }
        if (depth == range.trial) {
            range.measured = Math.min(PROBE_STEPS, range.measured + 1);
        } else if (range.trial == NONE) {
            choose(range);
        }
    }

    /// A step of so many sequences, all of them undrafted, and of nothing else, took so long.
    void tookUndrafted(int sequences, long nanos) {
        Range range = ranges[range(sequences)];
        range.bareNanos[(int) (range.bareCount++ % TIMES)] = nanos;
    }

    /// A depth without enough times, the least first, or [#NONE].
    private int unmeasured(Range range) {
        for (int depth = 0; depth <= most; depth++) {
            if (range.count[depth] < PROBE_STEPS) {
                return depth;
            }
        }
        return NONE;
    }

    private void choose(Range range) {
        if (unmeasured(range) != NONE) {
            return;
        }
        int best = range.chosen;
        for (int depth = 0; depth <= most; depth++) {
            double needed = best == range.chosen ? BETTER * rate(range, best) : rate(range, best);
            if (depth != range.chosen && rate(range, depth) > needed) {
                best = depth;
            }
        }
        range.chosen = best;
        if (!range.undrafted) {
            double bare = 1 / Math.max(1.0, median(range.bareNanos, range.bareCount));
            double drafted = 0;
            for (int depth = 0; depth <= most; depth++) {
                drafted = Math.max(drafted, rate(range, depth));
            }
            range.undrafted = range.before ? BETTER * bare >= drafted : bare > BETTER * drafted;
            range.before = range.undrafted;
            range.rest = Math.clamp((long) REST_TIMES * range.looked, REST, MOST_REST);
        }
    }

    /// Tokens of a sequence per nanosecond.
    private double rate(Range range, int depth) {
        double tokens = 1;
        double reached = 1;
        for (int i = 0; i < depth; i++) {
            reached *= right[i];
            tokens += reached;
        }
        return tokens / Math.max(1, median(range.nanos[depth], range.count[depth]));
    }

    private long median(long[] nanos, long times) {
        int count = (int) Math.min(TIMES, times);
        System.arraycopy(nanos, 0, scratch, 0, count);
        Arrays.sort(scratch, 0, count);
        return scratch[count / 2];
    }
}

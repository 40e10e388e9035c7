package millrace.engine.batch;

/// What is known of the rows of a step's logits because whoever computed them has looked at them already.
public interface LogitFacts {
    /// The largest bits of an absolute value: without their sign, floats are in the order of their bits, with infinity and
    /// then NaN above all numbers.
    int largest(int row);

    /// Bits in which some logit differs from the row's first; 0 if all are the same.
    int differing(int row);

    /// The token of the largest logit, the lowest of several; not defined for a row with a NaN.
    int best(int row);

    /// Bits of the largest logit.
    int bestBits(int row);

    /// The token that was drawn from the row as the step's plan asks, [StepPlan#draw]; [Choice#NONE] if whoever asks is to choose.
    default int drawn(int row) {
        return Choice.NONE;
    }

    /// Whether the row stands among the logits. Otherwise its numbers are where they were computed, until [#bring].
    default boolean here(int row) {
        return true;
    }

    /// CRC-32C of a row that is not here.
    default int checksum(int row) {
        throw new UnsupportedOperationException("every row is here");
    }

    /// Puts a row among the logits if it is not there.
    default void bring(int row) {}
}

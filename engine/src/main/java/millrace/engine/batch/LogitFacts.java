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
}

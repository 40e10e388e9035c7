package millrace.streams.cli;

/// What a row of logits says of the next token. In double and by `StrictMath`, so that a figure does not depend on
/// whether a loop was compiled; nothing overflows, however large the logits.
final class NextToken {
    private NextToken() {}

    /// `ln Σ exp(logits)`: a logit less this is the logarithm of its token's probability.
    static double logSum(float[] logits, int offset, int vocabSize) {
        double top = logits[offset + largest(logits, offset, vocabSize)];
        double sum = 0;
        for (int i = 0; i < vocabSize; i++) {
            sum += StrictMath.exp(logits[offset + i] - top);
        }
        return StrictMath.log(sum) + top;
    }

    /// The token with the largest logit, the lowest of several.
    static int largest(float[] logits, int offset, int vocabSize) {
        int best = 0;
        for (int i = 1; i < vocabSize; i++) {
            if (logits[offset + i] > logits[offset + best]) {
                best = i;
            }
        }
        return best;
    }

    /// The Kullback-Leibler divergence of `q` from `p` over the whole vocabulary, `Σ p (ln p − ln q)`, in nats: what is
    /// lost when `q` is taken for `p`. Never negative, and 0 for equal rows.
    ///
    /// @param pLogSum [#logSum] of `p`
    /// @param qLogSum that of `q`
    static double divergence(
            float[] p, int pOffset, double pLogSum, float[] q, int qOffset, double qLogSum, int vocabSize) {
        double sum = 0;
        for (int i = 0; i < vocabSize; i++) {
            double logP = p[pOffset + i] - pLogSum;
            double logQ = q[qOffset + i] - qLogSum;
            sum += StrictMath.exp(logP) * (logP - logQ);
        }
        // Rounding of almost equal rows may end just below.
        return Math.max(0, sum);
    }
}

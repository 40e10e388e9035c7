package millrace.engine.sampling;

import java.util.Arrays;
import millrace.engine.Sampling;

/// How far a token is from being the one that [Sampler] takes: what two logits would have to move against one another.
///
/// Logits of another profile differ a little, and so may the choice. Where each logit moves by at most ε, a token that is
/// chosen then has a gap of at most 2ε now: that is what makes the number fit to be compared with a bound.
///
/// A score is a logit after the repetition penalty; the sampler maximizes `value = score + T · g`, `g` the Gumbel number of
/// step and token, over those that top_k, top_p and min_p leave. The gap is the smallest `t` for which
///
/// - the token may be left in: fewer than k scores are above its own by more than t; the mass of these is at most
///   `needed · exp(t / T)`, `needed` the share `p` of what top_k leaves; and it is below the best by at most
///   `−T · ln(min_p) + t`;
/// - each token with a value that is larger by more than t may be left out: k others have scores of at least its own less t; or
///   their mass is at least `needed · exp(−t / T)`; or it is below the best of the others by at least
///   `−T · ln(min_p) − t`;
///
/// divided by what the penalty multiplies a logit with at most. At temperature 0 it is the difference to the largest score.
public final class ChoiceGap {
    /// Halvings of the span that holds the gap: more than a double can tell apart.
    private static final int HALVINGS = 60;

    private final Sampling sampling;
    private final double temperature;
    private final double[] scores;

    /// Scores, ascending, and the mass of those from an index on, relative to the best.
    private final double[] sorted;
    private final double[] mass;
    private final int kept;
    private final double needed;
    private final int[] words = new int[4];

    private ChoiceGap(Sampling sampling, double[] scores) {
        this.sampling = sampling;
        this.scores = scores;
        temperature = sampling.temperature();
        int count = scores.length;
        sorted = scores.clone();
        Arrays.sort(sorted);
        mass = new double[count + 1];
        for (int i = count - 1; i >= 0; i--) {
            mass[i] = mass[i + 1] + weight(sorted[i]);
        }
        kept = sampling.topK() > 0 ? Math.min(sampling.topK(), count) : count;
        needed = sampling.topP() < 1f ? sampling.topP() * mass[count - kept] : Double.POSITIVE_INFINITY;
    }

    /// @param tokens prompt and generated tokens before this step, `length` of them
    /// @param step index of the token to choose among the generated ones, from 0
    /// @param token the one that was taken
    /// @return in the unit of logits; 0 for the token that the sampler chooses
    public static double of(
            float[] logits, int offset, int vocabSize, Sampling sampling, int[] tokens, int length, long step, int token) {
        double[] scores = scores(logits, offset, vocabSize, sampling.repetitionPenalty(), tokens, length);
        double penalty = Math.max(sampling.repetitionPenalty(), 1 / sampling.repetitionPenalty());
        if (sampling.temperature() == 0f || sampling.topK() == 1) {
            return (Arrays.stream(scores).max().orElseThrow() - scores[token]) / penalty;
        }
        return new ChoiceGap(sampling, scores).smallest(step, token) / penalty;
    }

    private static double[] scores(float[] logits, int offset, int vocabSize, float penalty, int[] tokens, int length) {
        double[] scores = new double[vocabSize];
        for (int i = 0; i < vocabSize; i++) {
            scores[i] = logits[offset + i];
        }
        Arrays.stream(tokens, 0, length).distinct().forEach(id -> {
            float score = logits[offset + id];
            scores[id] = score > 0f ? score / penalty : score * penalty;
        });
        return scores;
    }

    private double smallest(long step, int token) {
        double[] values = new double[scores.length];
        Arrays.setAll(values, id -> scores[id] + temperature * Sampler.gumbel(sampling.seed(), step, id, words));
        if (fits(values, token, 0)) {
            return 0;
        }
        double low = 0;
        double high = Math.max(temperature, 1e-6);
        while (!fits(values, token, high)) {
            low = high;
            high *= 2;
        }
        for (int i = 0; i < HALVINGS && low < high; i++) {
            double middle = (low + high) / 2;
            if (fits(values, token, middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        return high;
    }

    private boolean fits(double[] values, int token, double t) {
        if (!mayBeIn(scores[token], t)) {
            return false;
        }
        for (int id = 0; id < values.length; id++) {
            if (values[id] - values[token] > t && !mayBeOut(scores[id], t)) {
                return false;
            }
        }
        return true;
    }

    private boolean mayBeIn(double score, double t) {
        int above = from(score + t, true);
        return sorted.length - above < kept && mass[above] <= needed * Math.exp(t / temperature) && fromMinP(score, best()) >= -t;
    }

    private boolean mayBeOut(double score, double t) {
        int others = from(score - t, false);
        return sorted.length - others - 1 >= kept
                || mass[others] - weight(score) >= needed * Math.exp(-t / temperature)
                || fromMinP(score, sorted.length > 1 && score == best() ? sorted[sorted.length - 2] : best()) <= t;
    }

    /// The first of the sorted scores that is at least `bound`, or above it.
    private int from(double bound, boolean above) {
        int low = 0;
        int high = sorted.length;
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (above ? sorted[middle] > bound : sorted[middle] >= bound) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return low;
    }

    /// How far a score is above the least one that min_p leaves beside this best one.
    private double fromMinP(double score, double best) {
        double minP = sampling.minP();
        return minP > 0 ? score - best - temperature * StrictMath.log(minP) : Double.POSITIVE_INFINITY;
    }

    private double best() {
        return sorted[sorted.length - 1];
    }

    private double weight(double score) {
        return StrictMath.exp((score - best()) / temperature);
    }
}

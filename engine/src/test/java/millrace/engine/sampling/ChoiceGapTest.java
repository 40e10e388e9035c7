package millrace.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.SplittableRandom;
import millrace.engine.Sampling;
import org.junit.jupiter.api.Test;

class ChoiceGapTest {
    private static final int VOCAB = 60;
    private static final int[] TOKENS = {3, 3, 17, 40};

    private static double gap(float[] logits, Sampling sampling, long step, int token) {
        return ChoiceGap.of(logits, 0, logits.length, sampling, TOKENS, TOKENS.length, step, token);
    }

    @Test
    void greedyIsTheDifferenceToTheLargest() {
        float[] logits = new float[VOCAB];
        logits[5] = 3f;
        logits[6] = 2.5f;
        logits[17] = 4f;
        Sampling penalised = new Sampling(0f, 1f, 0, 0f, 2f, 0);
        assertThat(gap(logits, Sampling.GREEDY, 0, 17)).isZero();
        assertThat(gap(logits, Sampling.GREEDY, 0, 5)).isEqualTo(1.0);
        assertThat(gap(logits, penalised, 0, 5)).as("17 counts half").isZero();
        assertThat(gap(logits, penalised, 0, 6)).as("a penalty may double what logits differ by").isEqualTo(0.25);
        assertThat(gap(logits, new Sampling(1f, 1f, 1, 0f, 1f, 9), 0, 6)).as("top_k of 1 is greedy").isEqualTo(1.5);
    }

    @Test
    void countsEachFilterByWhatItLeavesOutOrMayLeaveOut() {
        float[] logits = {1f, 0.75f, 0.5f, -8f, -8f, -8f};
        int[] none = {};
        for (int seed = 0; seed < 200; seed++) {
            double topK = ChoiceGap.of(logits, 0, 6, new Sampling(1f, 1f, 2, 0f, 1f, seed), none, 0, 0, 2);
            assertThat(topK).as("the third of two").isGreaterThanOrEqualTo(0.25 - 1e-9);
            double minP = ChoiceGap.of(logits, 0, 6, new Sampling(1f, 1f, 0, 0.7f, 1f, seed), none, 0, 0, 2);
            assertThat(minP).as("e^-0.5 is less than 0.7").isGreaterThanOrEqualTo(0.5 + Math.log(0.7) - 1e-6);
        }
    }

    private static Sampling sampling(SplittableRandom random) {
        return new Sampling(
                random.nextInt(8) == 0 ? 0f : (float) random.nextDouble(0.1, 2),
                random.nextBoolean() ? 1f : (float) random.nextDouble(0.05, 1),
                random.nextBoolean() ? 0 : random.nextInt(1, VOCAB + 3),
                random.nextBoolean() ? 0f : (float) random.nextDouble(0.01, 0.9),
                random.nextBoolean() ? 1f : (float) random.nextDouble(0.5, 2),
                random.nextLong());
    }

    /// What a bound on the logits is worth: any choice from logits that moved by at most ε has a gap of at most 2ε, whatever the
    /// sampling; and the choice itself has none.
    @Test
    void aChoiceFromLogitsThatMovedIsWithinTwiceTheirMove() {
        SplittableRandom random = new SplittableRandom(20261130);
        Sampler sampler = new Sampler(VOCAB);
        int departures = 0;
        for (int round = 0; round < 6_000; round++) {
            Sampling sampling = sampling(random);
            float[] logits = new float[VOCAB];
            float[] moved = new float[VOCAB];
            double epsilon = Math.pow(10, random.nextDouble(-4, 0));
            boolean coarse = random.nextBoolean();
            for (int i = 0; i < VOCAB; i++) {
                logits[i] = coarse ? random.nextInt(-3, 4) : (float) random.nextDouble(-6, 6);
                moved[i] = logits[i] + (float) random.nextDouble(-epsilon, epsilon);
            }
            int chosen = sampler.choose(logits, 0, sampling, TOKENS, TOKENS.length, round);
            int other = sampler.choose(moved, 0, sampling, TOKENS, TOKENS.length, round);
            assertThat(gap(logits, sampling, round, chosen)).as("%s", sampling).isCloseTo(0, within(1e-9));
            assertThat(gap(logits, sampling, round, other)).as("%s moved by %s", sampling, epsilon)
                    .isLessThanOrEqualTo(2 * epsilon + 1e-6);
            departures += chosen == other ? 0 : 1;
        }
        assertThat(departures).as("choices that moved").isGreaterThan(300);
    }

    /// The gap is no larger than need be: logits that move by a little more than half of it, the right way, give the token.
    @Test
    void aGreedyGapIsReached() {
        SplittableRandom random = new SplittableRandom(7);
        Sampler sampler = new Sampler(VOCAB);
        for (int round = 0; round < 500; round++) {
            float[] logits = new float[VOCAB];
            for (int i = 0; i < VOCAB; i++) {
                logits[i] = (float) random.nextDouble(-6, 6);
            }
            int token = random.nextInt(VOCAB);
            double half = gap(logits, Sampling.GREEDY, 0, token) / 2 + 1e-4;
            for (int i = 0; i < VOCAB; i++) {
                logits[i] += (float) (i == token ? half : -half);
            }
            assertThat(sampler.choose(logits, 0, Sampling.GREEDY, TOKENS, TOKENS.length, 0)).isEqualTo(token);
        }
    }
}

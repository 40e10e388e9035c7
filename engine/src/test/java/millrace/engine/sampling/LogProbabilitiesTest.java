package millrace.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.math.BigDecimal;
import java.math.MathContext;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.TokenLogprob;
import org.junit.jupiter.api.Test;

class LogProbabilitiesTest {
    private static final int VOCAB = 1_000;

    /// Against sums of 60 digits, which have no order to speak of, and a sort.
    @Test
    void isTheLogSoftmaxAndTheLargest() {
        for (int seed = 0; seed < 40; seed++) {
            var random = new SplittableRandom(seed);
            float[] logits = logits(random, random.nextInt(4) == 0 ? 4 : 1_000_000);
            int token = random.nextInt(VOCAB);
            int top = random.nextInt(21);
            var probabilities = new LogProbabilities(VOCAB, top);
            probabilities.add(logits, 0, token);
            TokenLogprob got = probabilities.values().getFirst();
            double norm = norm(logits);
            assertThat(got.token()).isEqualTo(token);
            assertThat((double) got.logprob()).as("seed " + seed).isCloseTo(logits[token] - norm, within(4e-6));
            List<Integer> sorted = IntStream.range(0, VOCAB).boxed()
                    .sorted(Comparator.comparing((Integer id) -> -(double) logits[id]).thenComparing(id -> id))
                    .limit(top)
                    .toList();
            assertThat(got.top()).as("seed " + seed).extracting(TokenLogprob.Top::token).isEqualTo(sorted);
            for (TokenLogprob.Top one : got.top()) {
                assertThat((double) one.logprob()).isCloseTo(logits[one.token()] - norm, within(4e-6));
            }
        }
    }

    @Test
    void isNeverAboveZeroAndNeverNegativeZero() {
        float[] sure = new float[VOCAB];
        java.util.Arrays.fill(sure, -1e30f);
        sure[7] = -0f;
        var probabilities = new LogProbabilities(VOCAB, 2);
        probabilities.add(sure, 0, 7);
        TokenLogprob got = probabilities.values().getFirst();
        assertThat(Float.floatToRawIntBits(got.logprob())).isZero();
        assertThat(got.top()).containsExactly(new TokenLogprob.Top(7, 0f), new TokenLogprob.Top(0, -1e30f));
    }

    @Test
    void readsTheRowOnlyAndKeepsWhatIsLeft() {
        var random = new SplittableRandom(3);
        float[] two = new float[2 * VOCAB];
        float[] second = logits(random, 1_000_000);
        System.arraycopy(logits(random, 1_000_000), 0, two, 0, VOCAB);
        System.arraycopy(second, 0, two, VOCAB, VOCAB);
        var both = new LogProbabilities(VOCAB, 5);
        both.add(two, 0, 1);
        both.add(two, VOCAB, 2);
        var alone = new LogProbabilities(VOCAB, 5);
        alone.add(second, 0, 2);
        assertThat(both.values().get(1)).isEqualTo(alone.values().getFirst());
        both.keep(1);
        assertThat(both.values()).extracting(TokenLogprob::token).containsExactly(1);
        both.keep(5);
        assertThat(both.values()).hasSize(1);
    }

    @Test
    void listsNoMoreThanThereAre() {
        var tiny = new LogProbabilities(3, 20);
        tiny.add(new float[] {1, 2, 1}, 0, 0);
        assertThat(tiny.values().getFirst().top()).extracting(TokenLogprob.Top::token).containsExactly(1, 0, 2);
    }

    /// @param levels few of them make ties
    private static float[] logits(SplittableRandom random, int levels) {
        float[] logits = new float[VOCAB];
        for (int i = 0; i < VOCAB; i++) {
            logits[i] = 40f * random.nextInt(levels) / levels - 20f;
        }
        return logits;
    }

    private static double norm(float[] logits) {
        var digits = new MathContext(60);
        BigDecimal sum = BigDecimal.ZERO;
        for (float logit : logits) {
            sum = sum.add(BigDecimal.valueOf(Math.exp(logit)), digits);
        }
        return Math.log(sum.doubleValue());
    }
}

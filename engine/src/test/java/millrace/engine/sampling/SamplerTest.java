package millrace.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.Sampling;
import org.junit.jupiter.api.Test;

class SamplerTest {
    private static final int[] NONE = {};

    @Test
    void greedyTakesTheLargestAndTheLowestIdAmongEquals() {
        assertThat(greedy(1f, 3f, 2f, 3f)).isEqualTo(1);
        assertThat(greedy(-5f, -5f, -5f)).isZero();
        assertThat(greedy(-0f, 0f)).isZero();
    }

    @Test
    void negativeZeroTemperatureIsGreedy() {
        var sampling = new Sampling(-0f, 1f, 0, 0f, 1f, 7);
        assertThat(new Sampler(3).choose(new float[] {0, 2, 1}, 0, sampling, NONE, 0, 0)).isEqualTo(1);
    }

    @Test
    void readsOnlyItsOwnRow() {
        float[] logits = {9, 9, 9, 1, 2, 1, Float.NaN};
        assertThat(new Sampler(3).choose(logits, 3, Sampling.GREEDY, NONE, 0, 0)).isEqualTo(1);
    }

    @Test
    void repetitionPenaltyAppliesOncePerTokenToBothSigns() {
        var sampling = new Sampling(0f, 1f, 0, 0f, 2f, 0);
        // 3 → 1.5 although the token occurs twice, so 2 wins; −1 → −2, so −1.5 wins.
        assertThat(new Sampler(2).choose(new float[] {3f, 2f}, 0, sampling, new int[] {0, 0}, 2, 0)).isEqualTo(1);
        assertThat(new Sampler(2).choose(new float[] {3.9f, 1.9f}, 0, sampling, new int[] {0, 0, 9}, 2, 0)).isZero();
        assertThat(new Sampler(2).choose(new float[] {-1f, -1.5f}, 0, sampling, new int[] {0}, 1, 0)).isEqualTo(1);
    }

    /// The pruned, partially sorted code chooses what a plain reading of the definition chooses.
    @Test
    void choosesWhatThePlainDefinitionChooses() {
        var random = new SplittableRandom(20260101);
        for (int round = 0; round < 400; round++) {
            int vocab = 1 + random.nextInt(300);
            float[] logits = new float[vocab];
            float spread = (float) Math.pow(10, random.nextDouble() * 3 - 1.5);
            for (int i = 0; i < vocab; i++) {
                logits[i] = Math.round(random.nextDouble() * 40 - 20) / 4f * spread;
            }
            int[] history = random.ints(random.nextInt(20), 0, vocab).toArray();
            var sampling = new Sampling(
                    pick(random, 0.1f, 0.7f, 1f, 1.7f),
                    pick(random, 0.05f, 0.5f, 0.9f, 0.999f, 1f),
                    (int) pick(random, 0, 0, 1, 2, 7, 50, 1000),
                    pick(random, 0f, 0f, 0.05f, 0.5f, 1f),
                    pick(random, 1f, 1f, 1.3f, 0.8f),
                    random.nextLong());
            long step = random.nextLong(1L << 40);
            int chosen = new Sampler(vocab).choose(logits, 0, sampling, history, history.length, step);
            assertThat(chosen).as("round %d of seed 20260101: %s", round, sampling)
                    .isEqualTo(plain(logits, sampling, history, step));
            int largest = greedy(logits);
            assertThat(new Sampler(vocab).choose(logits, 0, largest, sampling, history, history.length, step))
                    .as("where the largest is known").isEqualTo(chosen);
        }
    }

    /// Tokens that may not be chosen change nothing but that they are not: as if the vocabulary did not have them.
    @Test
    void minusInfinityIsNoToken() {
        var random = new SplittableRandom(20261130);
        for (int round = 0; round < 400; round++) {
            int vocab = 1 + random.nextInt(300);
            float[] logits = new float[vocab];
            int allowed = random.nextInt(vocab);
            for (int i = 0; i < vocab; i++) {
                boolean may = i == allowed || random.nextInt(4) == 0;
                logits[i] = may ? (float) random.nextDouble(-9, 9) : Float.NEGATIVE_INFINITY;
            }
            int[] history = random.ints(random.nextInt(20), 0, vocab).toArray();
            var sampling = new Sampling(
                    pick(random, 0f, 0.1f, 1f, 1.7f, 10f),
                    pick(random, 0.05f, 0.9f, 0.999f, 1f),
                    (int) pick(random, 0, 0, 2, 50, 1000),
                    pick(random, 0f, 0f, 0.05f, 0.5f),
                    pick(random, 1f, 1f, 1.3f, 0.8f),
                    random.nextLong());
            int chosen = new Sampler(vocab).choose(logits, 0, sampling, history, history.length, round);
            assertThat(logits[chosen]).as("round %d: %s", round, sampling).isFinite();
            if (sampling.temperature() > 0) {
                assertThat(chosen).as("round %d: %s", round, sampling).isEqualTo(plain(logits, sampling, history, round));
            }
        }
    }

    @Test
    void scratchMemoryCarriesNothingOver() {
        var random = new SplittableRandom(3);
        var reused = new Sampler(64);
        for (int round = 0; round < 100; round++) {
            float[] logits = new float[64];
            for (int i = 0; i < 64; i++) {
                logits[i] = (float) random.nextDouble() * 8;
            }
            var sampling = new Sampling(1f, 0.8f, round % 9, 0.01f * (round % 3), 1f + round % 2, round);
            int[] history = random.ints(5, 0, 64).toArray();
            assertThat(reused.choose(logits, 0, sampling, history, 5, round))
                    .isEqualTo(new Sampler(64).choose(logits, 0, sampling, history, 5, round));
        }
    }

    @Test
    void drawsInProportionToTheProbabilities() {
        float[] logits = {0f, (float) Math.log(2), (float) Math.log(5)};
        var sampler = new Sampler(3);
        int[] counts = new int[3];
        int draws = 40_000;
        for (int step = 0; step < draws; step++) {
            counts[sampler.choose(logits, 0, new Sampling(1f, 1f, 0, 0f, 1f, 42), NONE, 0, step)]++;
        }
        // Three standard deviations of a binomial are below 0.0075 here.
        assertThat(counts[0] / (double) draws).isBetween(0.125 - 0.0075, 0.125 + 0.0075);
        assertThat(counts[1] / (double) draws).isBetween(0.25 - 0.0075, 0.25 + 0.0075);
        assertThat(counts[2] / (double) draws).isBetween(0.625 - 0.0075, 0.625 + 0.0075);
    }

    /// Bits that must never change while the sampler is called `gumbel-philox/v1`.
    @Test
    void keepsTheBitsOfVersionOne() {
        assertThat(Sampler.ID).isEqualTo("gumbel-philox/v1");
        float[] logits = new float[100];
        for (int i = 0; i < 100; i++) {
            logits[i] = (i * 37 % 100) / 20f;
        }
        List<Integer> chosen = new ArrayList<>();
        for (int step = 0; step < 12; step++) {
            chosen.add(new Sampler(100).choose(logits, 0, new Sampling(1f, 0.95f, 0, 0f, 1f, 1234), NONE, 0, step));
        }
        assertThat(chosen).containsExactly(27, 2, 99, 81, 13, 54, 35, 48, 89, 89, 32, 24);
    }

    private static int greedy(float... logits) {
        return new Sampler(logits.length).choose(logits, 0, Sampling.GREEDY, NONE, 0, 0);
    }

    private static float pick(SplittableRandom random, float... values) {
        return values[random.nextInt(values.length)];
    }

    private static int plain(float[] logits, Sampling sampling, int[] history, long step) {
        float[] scores = logits.clone();
        Set<Integer> seen = new HashSet<>();
        for (int token : history) {
            if (seen.add(token)) {
                float l = scores[token];
                scores[token] = l > 0 ? l / sampling.repetitionPenalty() : l * sampling.repetitionPenalty();
            }
        }
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < scores.length; i++) {
            order.add(i);
        }
        order.sort(Comparator.<Integer>comparingDouble(i -> -scores[i]).thenComparing(i -> i));
        if (sampling.topK() > 0 && sampling.topK() < order.size()) {
            order = order.subList(0, sampling.topK());
        }
        double t = sampling.temperature();
        double top = scores[order.getFirst()] / t;
        if (sampling.topP() < 1) {
            double mass = 0;
            for (int id : order) {
                mass += Math.exp(scores[id] / t - top);
            }
            double sum = 0;
            int kept = 0;
            while (kept < order.size() && sum < sampling.topP() * mass * (1 - 1e-12)) {
                sum += Math.exp(scores[order.get(kept++)] / t - top);
            }
            order = order.subList(0, kept);
        }
        int chosen = -1;
        double best = Double.NEGATIVE_INFINITY;
        int[] words = new int[4];
        for (int id : order) {
            if (Math.exp(scores[id] / t - top) < sampling.minP()) {
                continue;
            }
            CounterRandom.block(sampling.seed(), (int) step, (int) (step >>> 32), id / 4, 0, words);
            double g = -Math.log(-Math.log(CounterRandom.unit(words[id % 4])));
            double value = scores[id] / t + g;
            if (value > best || value == best && id < chosen) {
                best = value;
                chosen = id;
            }
        }
        return chosen;
    }
}

package millrace.engine.sampling;

import java.util.Arrays;
import millrace.engine.Sampling;

/// Chooses the next token: a pure function of (logits, sampling, tokens so far, step).
///
/// In this order:
///
/// 1. repetition penalty `r`: the logit of every token that occurs in the tokens so far (prompt included) becomes
///    `l / r` if positive, `l · r` otherwise, in float;
/// 2. temperature `T`: `z = l / T` in double; `T = 0` (of either sign) takes the largest logit and ends here;
/// 3. top_k: the `k` largest stay; 0 keeps all;
/// 4. top_p: the shortest run of the most likely tokens whose probabilities (softmax over the survivors of 3) sum to
///    at least `p` stays; 1 keeps all;
/// 5. min_p: tokens with at least `min_p` times the largest probability stay;
/// 6. Gumbel-max: the token with the largest `z + g`, `g = −ln(−ln u)`, wins. `u` is word `id mod 4` of the Philox
///    block with key = seed and counter (low half of step, high half of step, id / 4, 0), as `(word + 1/2) / 2³²`.
///
/// Equal values are ordered by token id, the lowest first. `exp` and `log` are `StrictMath`'s: the same bits on every
/// machine. [#ID] names all of this in attestations; a change of any line above needs another name.
///
/// Instances hold scratch memory for one vocabulary and serve one thread; nothing carries over between calls.
public final class Sampler {
    /// Name of this procedure in attestations.
    public static final String ID = Sampling.ALGORITHM;

    /// In place of a token that is not known.
    public static final int UNKNOWN = -1;

    /// No computed Gumbel number is larger: `u` is at most `1 − 2⁻³³` and `log` is monotone.
    private static final double LARGEST_GUMBEL = gumbel(0xFFFFFFFF);

    /// Margin of the sum that decides whether a gathered set covers top_p; far above the rounding of the sums.
    private static final double COVER = 1 + 1e-9;

    private final int vocabSize;
    private final float[] scores;
    private final long[] keys;
    private final boolean[] seen;
    private final int[] words = new int[4];

    public Sampler(int vocabSize) {
        this.vocabSize = vocabSize;
        scores = new float[vocabSize];
        keys = new long[vocabSize];
        seen = new boolean[vocabSize];
    }

    /// The token chosen from `logits[offset … offset + vocabSize)`, which are finite, or −∞ for tokens that are not to be chosen, as if
    /// the vocabulary did not have them; at least one is finite.
    ///
    /// @param tokens prompt and generated tokens, `length` of them
    /// @param step index of the token to choose among the generated ones, from 0
    public int choose(float[] logits, int offset, Sampling sampling, int[] tokens, int length, long step) {
        return choose(logits, offset, UNKNOWN, sampling, tokens, length, step);
    }

    /// The same where somebody may know which of them is the largest.
    ///
    /// @param known the largest of them, the lowest of several, or [#UNKNOWN]
    public int choose(
            float[] logits, int offset, int known, Sampling sampling, int[] tokens, int length, long step) {
        boolean penalised = sampling.repetitionPenalty() != 1f;
        boolean greedy = sampling.temperature() == 0f || sampling.topK() == 1;
        if (greedy && !penalised && known >= 0) {
            return known;
        }
        System.arraycopy(logits, offset, scores, 0, vocabSize);
        if (penalised) {
            penalise(sampling.repetitionPenalty(), tokens, length);
        }
        int best = known >= 0 && !penalised ? known : largest();
        if (greedy) {
            return best;
        }
        double temperature = sampling.temperature();
        int survivors = survivors(sampling, temperature, best);
        return gumbelMax(survivors, sampling, temperature, best, step);
    }

    private void penalise(float penalty, int[] tokens, int length) {
        for (int i = 0; i < length; i++) {
            int token = tokens[i];
            if (!seen[token]) {
                seen[token] = true;
                scores[token] = scores[token] > 0f ? scores[token] / penalty : scores[token] * penalty;
            }
        }
        for (int i = 0; i < length; i++) {
            seen[tokens[i]] = false;
        }
    }

    private int largest() {
        int best = 0;
        for (int i = 1; i < vocabSize; i++) {
            if (scores[i] > scores[best]) {
                best = i;
            }
        }
        return best;
    }

    /// Leaves the survivors of top_k and top_p in `keys[0 … n)` and returns `n`; −1 stands for the whole vocabulary.
    private int survivors(Sampling sampling, double temperature, int best) {
        int n = -1;
        if (sampling.topK() > 0 && sampling.topK() < vocabSize) {
            n = largestKeys(sampling.topK());
        }
        if (sampling.topP() < 1f) {
            n = nucleus(n, sampling.topP(), temperature, scores[best]);
        }
        return n;
    }

    /// Keeps the `k` largest keys in a heap whose root is the smallest, then sorts them.
    private int largestKeys(int k) {
        for (int i = 0; i < k; i++) {
            keys[i] = key(i);
        }
        for (int i = k / 2 - 1; i >= 0; i--) {
            sink(i, k);
        }
        for (int i = k; i < vocabSize; i++) {
            long key = key(i);
            if (key > keys[0]) {
                keys[0] = key;
                sink(0, k);
            }
        }
        Arrays.sort(keys, 0, k);
        return k;
    }

    private void sink(int parent, int size) {
        long key = keys[parent];
        while (2 * parent + 1 < size) {
            int child = 2 * parent + 1;
            if (child + 1 < size && keys[child + 1] < keys[child]) {
                child++;
            }
            if (key <= keys[child]) {
                break;
            }
            keys[parent] = keys[child];
            parent = child;
        }
        keys[parent] = key;
    }

    /// Cuts the survivors (`n` sorted keys, or all for −1) to the shortest run of the largest that sums to `topP`.
    private int nucleus(int n, double topP, double temperature, float top) {
        double needed = topP * (n < 0 ? mass(temperature, top) : mass(n, temperature, top));
        int gathered = n < 0 ? gather(needed, temperature, top) : n;
        double sum = 0;
        int kept = 0;
        while (kept < gathered) {
            sum += weight(id(keys[gathered - 1 - kept]), temperature, top);
            kept++;
            if (sum >= needed) {
                break;
            }
        }
        System.arraycopy(keys, gathered - kept, keys, 0, kept);
        return kept;
    }

    /// Gathers and sorts the tokens near the top until they surely hold `needed`: sorting the vocabulary is seldom
    /// worth it, and the run taken from a set that covers it is the same.
    private int gather(double needed, double temperature, float top) {
        for (double below = 4; ; below *= 2) {
            boolean all = below > 128;
            double floor = all ? Double.NEGATIVE_INFINITY : top / temperature - below;
            int count = 0;
            double sum = 0;
            for (int i = 0; i < vocabSize; i++) {
                if (scores[i] / temperature >= floor) {
                    keys[count++] = key(i);
                    sum += weight(i, temperature, top);
                }
            }
            if (all || sum >= needed * COVER) {
                Arrays.sort(keys, 0, count);
                return count;
            }
        }
    }

    private double mass(double temperature, float top) {
        double sum = 0;
        for (int i = 0; i < vocabSize; i++) {
            sum += weight(i, temperature, top);
        }
        return sum;
    }

    private double mass(int n, double temperature, float top) {
        double sum = 0;
        for (int i = n - 1; i >= 0; i--) {
            sum += weight(id(keys[i]), temperature, top);
        }
        return sum;
    }

    private int gumbelMax(int survivors, Sampling sampling, double temperature, int best, long step) {
        double winner = scores[best] / temperature + gumbel(sampling.seed(), step, best);
        int chosen = best;
        int count = survivors < 0 ? vocabSize : survivors;
        for (int i = 0; i < count; i++) {
            int id = survivors < 0 ? i : id(keys[i]);
            double z = scores[id] / temperature;
            if (z + LARGEST_GUMBEL < winner || id == best) {
                continue;
            }
            if (sampling.minP() > 0f && weight(id, temperature, scores[best]) < sampling.minP()) {
                continue;
            }
            double value = z + gumbel(sampling.seed(), step, id);
            if (value > winner || value == winner && id < chosen) {
                winner = value;
                chosen = id;
            }
        }
        return chosen;
    }

    private double gumbel(long seed, long step, int id) {
        return gumbel(seed, step, id, words);
    }

    /// The random number of a token at a step.
    ///
    /// @param words scratch of 4
    static double gumbel(long seed, long step, int id, int[] words) {
        CounterRandom.block(seed, (int) step, (int) (step >>> 32), id >>> 2, 0, words);
        return gumbel(words[id & 3]);
    }

    private static double gumbel(int word) {
        return -StrictMath.log(-StrictMath.log(CounterRandom.unit(word)));
    }

    /// Probability relative to that of the most likely token.
    private double weight(int id, double temperature, float top) {
        return StrictMath.exp(scores[id] / temperature - top / temperature);
    }

    /// Orders by score, then by lower id: the larger key is the better token. Both zeros are equal.
    private long key(int id) {
        int bits = Float.floatToRawIntBits(scores[id] + 0f);
        int ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF);
        return ((long) ordered << 32) | (~id & 0xFFFFFFFFL);
    }

    private static int id(long key) {
        return ~(int) key;
    }
}

package millrace.engine.sampling;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.TokenLogprob;

/// Log probabilities of the tokens of one completion, and of what else was likely in their place.
///
/// With `m` the largest logit of the row, the log probability of token `i` is `(l[i] − m) − ln Σ exp(l[j] − m)` in F64, the
/// sum from 0 over ascending `j`, rounded once to F32. `exp` and `log` are `StrictMath`'s, and nothing here knows of sampling
/// or of the rows beside it: equal logits give equal bits on every machine. The most likely tokens are those of the largest
/// logits, of equals the lower ids.
public final class LogProbabilities {
    private final int vocabSize;
    private final int top;
    private final int[] best;
    private final List<TokenLogprob> values = new ArrayList<>();

    /// @param top how many of the most likely tokens stand beside each, 0 or more
    public LogProbabilities(int vocabSize, int top) {
        this.vocabSize = vocabSize;
        this.top = Math.min(top, vocabSize);
        best = new int[this.top];
    }

    /// Adds the next token, chosen from `logits[offset … offset + vocabSize)`, which are finite.
    public void add(float[] logits, int offset, int token) {
        float largest = logits[offset];
        for (int i = 1; i < vocabSize; i++) {
            largest = Math.max(largest, logits[offset + i]);
        }
        double sum = 0;
        for (int i = 0; i < vocabSize; i++) {
            sum += StrictMath.exp((double) logits[offset + i] - largest);
        }
        double norm = StrictMath.log(sum);
        findBest(logits, offset);
        List<TokenLogprob.Top> likely = new ArrayList<>(top);
        for (int id : best) {
            likely.add(new TokenLogprob.Top(id, logprob(logits[offset + id], largest, norm)));
        }
        values.add(new TokenLogprob(token, logprob(logits[offset + token], largest, norm), likely));
    }

    private static float logprob(float logit, float largest, double norm) {
        // Plus 0, so that it is never the negative zero.
        return (float) ((double) logit - largest - norm + 0.0);
    }

    /// Keeps the best so far in order: few tokens beat the last of them.
    private void findBest(float[] logits, int offset) {
        int found = 0;
        for (int id = 0; id < vocabSize && top > 0; id++) {
            float logit = logits[offset + id];
            if (found == top && !(logit > logits[offset + best[top - 1]])) {
                continue;
            }
            int at = found < top ? found++ : top - 1;
            while (at > 0 && logit > logits[offset + best[at - 1]]) {
                best[at] = best[at - 1];
                at--;
            }
            best[at] = id;
        }
    }

    /// Keeps those of the first so many tokens.
    public void keep(int tokens) {
        if (tokens < values.size()) {
            values.subList(tokens, values.size()).clear();
        }
    }

    /// One entry for each token, in their order.
    public List<TokenLogprob> values() {
        return List.copyOf(values);
    }
}

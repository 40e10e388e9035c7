package millrace.engine;

import java.util.List;

/// A generated token and what else was likely in its place. Log probabilities are natural logarithms of the softmax of
/// the logits as the model gave them, before any sampling setting; see docs/numerics.md.
///
/// @param logprob at most 0
/// @param top the most likely tokens, the most likely first, of equals the lower id; as many as were asked for
public record TokenLogprob(int token, float logprob, List<Top> top) {
    public TokenLogprob {
        top = List.copyOf(top);
    }

    /// A token that could have been chosen.
    public record Top(int token, float logprob) {}
}

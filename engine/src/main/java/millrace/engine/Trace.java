package millrace.engine;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// What an engine finds when it follows an answer that is there already: at each step the tokens so far are given, and what
/// it would have chosen is compared with what was taken.
///
/// @param steps tokens of the answer that were followed: all, or those up to the one that ends it
/// @param departures steps at which another token was taken than this engine chooses, in order
/// @param text of the tokens that were followed; stop tokens and stop strings are not part of it
/// @param reason `STOP` or `LENGTH` where the last token ends the answer, `DEADLINE` where more would have come, else why the
///        engine gave up
/// @param activations the largest activations of each run of tokens; empty where they are not kept
/// @param errorCode on `FAILED` a stable code, else null
/// @param errorMessage on `FAILED` what happened, else null
public record Trace(
        int steps,
        List<Departure> departures,
        String text,
        FinishReason reason,
        List<ActivationTop> activations,
        @Nullable String errorCode,
        @Nullable String errorMessage) {

    public Trace {
        departures = List.copyOf(departures);
        activations = List.copyOf(activations);
    }

    /// A step at which another token was taken.
    ///
    /// @param step index among the generated tokens, from 0
    /// @param taken what the answer has
    /// @param chosen what this engine chooses from the same tokens
    /// @param gap by how much two logits would have to move against one another for `taken` to be chosen; see
    ///        docs/numerics.md
    /// @param scale the largest magnitude of this step's logits
    public record Departure(int step, int taken, int chosen, double gap, double scale) {}
}

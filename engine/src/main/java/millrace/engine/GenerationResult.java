package millrace.engine;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// The end of one generation.
///
/// @param text the completion; stop tokens and stop strings are not part of it
/// @param tokenIds every generated token, the stop token included
/// @param errorCode on `FAILED` a stable code, else null
/// @param errorMessage on `FAILED` what happened, else null
/// @param transcript what the engine did, as facts for the attestation
/// @param logprobs one entry for each generated token, the stop token included, where the request asked for them; else none
public record GenerationResult(
        String text,
        List<Integer> tokenIds,
        FinishReason reason,
        Usage usage,
        Timings timings,
        @Nullable String errorCode,
        @Nullable String errorMessage,
        Transcript transcript,
        List<TokenLogprob> logprobs) {

    public GenerationResult {
        tokenIds = List.copyOf(tokenIds);
        logprobs = List.copyOf(logprobs);
    }

    /// Without log probabilities.
    public GenerationResult(
            String text,
            List<Integer> tokenIds,
            FinishReason reason,
            Usage usage,
            Timings timings,
            @Nullable String errorCode,
            @Nullable String errorMessage,
            Transcript transcript) {
        this(text, tokenIds, reason, usage, timings, errorCode, errorMessage, transcript, List.of());
    }
}

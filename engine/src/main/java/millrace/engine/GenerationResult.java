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
public record GenerationResult(
        String text,
        List<Integer> tokenIds,
        FinishReason reason,
        Usage usage,
        Timings timings,
        @Nullable String errorCode,
        @Nullable String errorMessage,
        Transcript transcript) {

    public GenerationResult {
        tokenIds = List.copyOf(tokenIds);
    }
}

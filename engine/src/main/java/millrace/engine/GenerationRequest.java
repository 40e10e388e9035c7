package millrace.engine;

import java.util.List;

/// One request.
///
/// @param id for logs and messages only
/// @param maxNewTokens at least 1
/// @param stop strings that end the completion and are not part of it
/// @param deadlineMs milliseconds since the epoch, or `Long.MAX_VALUE`
/// @param priority higher is admitted first among waiting requests
/// @param cacheSalt who may share KV pages with this request: those with an equal salt. Empty for the shared default
public record GenerationRequest(
        String id,
        PromptInput input,
        Sampling sampling,
        int maxNewTokens,
        List<String> stop,
        long deadlineMs,
        int priority,
        String cacheSalt) {

    public GenerationRequest {
        stop = List.copyOf(stop);
    }

    /// A request with the shared default salt.
    public GenerationRequest(
            String id,
            PromptInput input,
            Sampling sampling,
            int maxNewTokens,
            List<String> stop,
            long deadlineMs,
            int priority) {
        this(id, input, sampling, maxNewTokens, stop, deadlineMs, priority, "");
    }

    public static GenerationRequest greedy(String id, PromptInput input, int maxNewTokens) {
        return new GenerationRequest(id, input, Sampling.GREEDY, maxNewTokens, List.of(), Long.MAX_VALUE, 0);
    }
}

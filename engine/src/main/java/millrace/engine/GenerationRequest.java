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
/// @param logprobs how many of the most likely tokens are listed beside each generated one, with their log
///         probabilities; [#NO_LOGPROBS] for none and no log probabilities at all
/// @param format what the completion must be
public record GenerationRequest(
        String id,
        PromptInput input,
        Sampling sampling,
        int maxNewTokens,
        List<String> stop,
        long deadlineMs,
        int priority,
        String cacheSalt,
        int logprobs,
        ResponseFormat format) {

    /// In place of a count: log probabilities are not wanted.
    public static final int NO_LOGPROBS = -1;

    /// The most tokens that are listed beside a generated one.
    public static final int MAX_LOGPROBS = 20;

    public GenerationRequest {
        stop = List.copyOf(stop);
    }

    /// A request for any text, without log probabilities.
    public GenerationRequest(
            String id,
            PromptInput input,
            Sampling sampling,
            int maxNewTokens,
            List<String> stop,
            long deadlineMs,
            int priority,
            String cacheSalt) {
        this(id, input, sampling, maxNewTokens, stop, deadlineMs, priority, cacheSalt, NO_LOGPROBS, ResponseFormat.TEXT);
    }

    /// The same with the shared default salt.
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

    /// The same request for at most so many tokens.
    public GenerationRequest withMaxNewTokens(int tokens) {
        return new GenerationRequest(
                id, input, sampling, tokens, stop, deadlineMs, priority, cacheSalt, logprobs, format);
    }

    /// The same request with log probabilities.
    public GenerationRequest withLogprobs(int top) {
        return new GenerationRequest(
                id, input, sampling, maxNewTokens, stop, deadlineMs, priority, cacheSalt, top, format);
    }

    /// The same request for a completion of this form.
    public GenerationRequest withFormat(ResponseFormat wanted) {
        return new GenerationRequest(
                id, input, sampling, maxNewTokens, stop, deadlineMs, priority, cacheSalt, logprobs, wanted);
    }
}

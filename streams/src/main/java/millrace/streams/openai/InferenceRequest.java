package millrace.streams.openai;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import org.jspecify.annotations.Nullable;

/// What a body asks for. Exactly one of messages, text and token ids is not null.
///
/// @param n how many answers; each is a prompt event of its own
/// @param sampling of the first answer; where it has a seed, answer i takes seed + i
/// @param logprobs null for none, else how many alternatives
/// @param deadlineMs when the answer stops being useful, milliseconds since the epoch, or null
/// @param includeUsage whether a stream ends with the counts of tokens
public record InferenceRequest(
        @Nullable String model,
        @Nullable List<Message> messages,
        @Nullable String text,
        @Nullable List<Integer> tokenIds,
        @Nullable String tools,
        @Nullable String toolChoice,
        @Nullable Boolean thinking,
        @Nullable String reasoningEffort,
        @Nullable String responseFormat,
        Sampling sampling,
        int n,
        @Nullable Integer logprobs,
        int priority,
        @Nullable String sessionId,
        @Nullable Long deadlineMs,
        boolean returnTokenIds,
        Map<String, String> metadata,
        boolean stream,
        boolean includeUsage) {
    /// The prompt events, one for each answer.
    ///
    /// @param id of the request: with several answers, number i has the id `<id>.<i>`
    /// @param latestMs the deadline that the request's own may not exceed, or null
    public List<Prompt> prompts(String id, @Nullable String tenant, @Nullable Long latestMs, boolean preview) {
        Long deadline = deadlineMs == null || latestMs != null && latestMs < deadlineMs ? latestMs : deadlineMs;
        List<Prompt> prompts = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            Long seed = sampling.getSeed();
            prompts.add(Prompt.newBuilder()
                    .setRequestId(idOf(id, i, n))
                    .setTenant(tenant)
                    .setSessionId(sessionId)
                    .setModel(model)
                    .setMessages(messages)
                    .setPrompt(text)
                    .setTokenIds(tokenIds)
                    .setTools(tools)
                    .setToolChoice(toolChoice)
                    .setThinking(thinking)
                    .setReasoningEffort(reasoningEffort)
                    .setResponseFormat(responseFormat)
                    .setSampling(Sampling.newBuilder(sampling).setSeed(seed == null ? null : (Long) (seed + i)).build())
                    .setLogprobs(logprobs)
                    .setDeadlineMs(deadline)
                    .setPriority(priority)
                    .setReturnTokenIds(returnTokenIds)
                    .setMetadata(metadata)
                    .setPreview(preview)
                    .build());
        }
        return prompts;
    }

    /// The request id of answer i of n.
    public static String idOf(String id, int i, int n) {
        return n == 1 ? id : id + "." + i;
    }
}

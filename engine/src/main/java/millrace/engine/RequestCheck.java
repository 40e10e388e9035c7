package millrace.engine;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// The limits of a request, checked before anything is tokenized or allocated.
///
/// Every number has a closed range; every message names the value, the range and what to do. Prompts are never part of
/// a message.
final class RequestCheck {
    /// The largest temperature; beyond it every filter keeps noise.
    static final float MAX_TEMPERATURE = 10f;

    static final float MIN_REPETITION_PENALTY = 0.1f;
    static final float MAX_REPETITION_PENALTY = 10f;
    static final int MAX_STOP_STRINGS = 16;
    static final int MAX_STOP_CHARACTERS = 256;
    static final int MAX_MESSAGES = 4096;

    /// Text in any language has 1 to 6 characters a token; a text with more than this on average is not worth the work
    /// of tokenizing it, though a run of white space may have 100 and more.
    static final int CHARACTERS_PER_TOKEN = 64;

    private final int vocabSize;
    private final int maxContext;
    private final long maxCharacters;

    RequestCheck(int vocabSize, int maxContext) {
        this.vocabSize = vocabSize;
        this.maxContext = maxContext;
        maxCharacters = Math.min(1L << 24, (long) maxContext * CHARACTERS_PER_TOKEN);
    }

    /// Everything that can be said before the prompt is tokenized.
    void check(GenerationRequest request) {
        if (request.maxNewTokens() < 1 || request.maxNewTokens() > maxContext) {
            throw range("max_tokens", request.maxNewTokens(), "1 to " + maxContext);
        }
        sampling(request.sampling());
        if (request.logprobs() < GenerationRequest.NO_LOGPROBS || request.logprobs() > GenerationRequest.MAX_LOGPROBS) {
            throw range("logprobs", request.logprobs(), "0 to " + GenerationRequest.MAX_LOGPROBS + " tokens beside each");
        }
        stop(request.stop());
        if (!(request.format() instanceof ResponseFormat.Text) && !request.stop().isEmpty()) {
            throw new InvalidRequestException("GUIDE_STOP", "stop: expected no strings beside "
                    + (request.format() instanceof ResponseFormat.Calls ? "calls that are held to a form" : "response_format") + ", got "
                    + request.stop().size() + "; leave them out, a document ends where it is whole");
        }
        switch (request.input()) {
            case PromptInput.Text(String text) -> {
                length(text.length());
                text("prompt", text);
                if (text.isBlank()) {
                    throw empty("a text with at least one character that is not white space");
                }
            }
            case PromptInput.Messages(List<ChatMessage> messages, ChatOptions options) -> messages(messages, options);
            case PromptInput.TokenIds(List<Integer> ids) -> ids(ids);
        }
    }

    /// Whether prompt and completion together fit the context and the KV cache.
    ///
    /// @param kvTokens tokens that the whole page pool holds
    void fits(int promptTokens, int maxNewTokens, long kvTokens) {
        long needed = (long) promptTokens + maxNewTokens;
        if (needed > maxContext) {
            throw new InvalidRequestException("CONTEXT_OVERFLOW", "prompt: expected prompt and max_tokens to fit the "
                    + "context of " + maxContext + " tokens, got " + promptTokens + " + " + maxNewTokens + " = " + needed
                    + "; shorten the prompt or lower max_tokens");
        }
        if (needed > kvTokens) {
            throw new InvalidRequestException("CONTEXT_OVERFLOW", "prompt: expected prompt and max_tokens to fit the KV "
                    + "cache of " + kvTokens + " tokens, got " + promptTokens + " + " + maxNewTokens + " = " + needed
                    + "; shorten the prompt, lower max_tokens, or raise engine.kv.bytes");
        }
    }

    void ids(List<Integer> ids) {
        if (ids.isEmpty()) {
            throw empty("at least one token id");
        }
        if (ids.size() > maxContext) {
            throw new InvalidRequestException("CONTEXT_OVERFLOW", "prompt: expected at most " + maxContext
                    + " token ids, the context, got " + ids.size() + "; shorten the prompt");
        }
        for (int i = 0; i < ids.size(); i++) {
            int id = ids.get(i);
            if (id < 0 || id >= vocabSize) {
                throw new InvalidRequestException("TOKEN_ID_RANGE", "prompt: token id " + i + ": expected 0 to "
                        + (vocabSize - 1) + ", got " + id + "; tokenize with this model's tokenizer");
            }
        }
    }

    private static void sampling(Sampling sampling) {
        // Comparisons that NaN fails, so that it is refused too.
        if (!(sampling.temperature() >= 0f && sampling.temperature() <= MAX_TEMPERATURE)) {
            throw range("temperature", sampling.temperature(), "0 (greedy) to " + (int) MAX_TEMPERATURE);
        }
        if (!(sampling.topP() > 0f && sampling.topP() <= 1f)) {
            throw range("top_p", sampling.topP(), "more than 0, at most 1 (all tokens)");
        }
        if (sampling.topK() < 0) {
            throw range("top_k", sampling.topK(), "0 (all tokens) or more");
        }
        if (!(sampling.minP() >= 0f && sampling.minP() <= 1f)) {
            throw range("min_p", sampling.minP(), "0 (all tokens) to 1");
        }
        if (!(sampling.repetitionPenalty() >= MIN_REPETITION_PENALTY
                && sampling.repetitionPenalty() <= MAX_REPETITION_PENALTY)) {
            throw range("repetition_penalty", sampling.repetitionPenalty(), "0.1 to 10, 1 for none");
        }
    }

    private static void stop(List<String> stop) {
        if (stop.size() > MAX_STOP_STRINGS) {
            throw new InvalidRequestException("PARAM_LIMIT", "stop: expected at most " + MAX_STOP_STRINGS
                    + " strings, got " + stop.size() + "; leave some out");
        }
        for (int i = 0; i < stop.size(); i++) {
            int length = stop.get(i).length();
            if (length == 0 || length > MAX_STOP_CHARACTERS) {
                throw new InvalidRequestException("PARAM_LIMIT", "stop: string " + i + ": expected 1 to "
                        + MAX_STOP_CHARACTERS + " characters, got " + length + "; leave it out or shorten it");
            }
            text("stop", stop.get(i));
        }
    }

    private void messages(List<ChatMessage> messages, ChatOptions options) {
        if (messages.isEmpty()) {
            throw empty("at least one message");
        }
        if (messages.size() > MAX_MESSAGES) {
            throw new InvalidRequestException("PARAM_LIMIT", "messages: expected at most " + MAX_MESSAGES + ", got "
                    + messages.size() + "; leave the oldest out");
        }
        long characters = lengthOf(options.tools());
        boolean blank = true;
        for (ChatMessage message : messages) {
            characters += message.content().length() + lengthOf(message.reasoningContent()) + lengthOf(message.name())
                    + lengthOf(message.toolCallId());
            blank &= message.content().isBlank() && message.toolCalls().isEmpty();
            for (ToolCall call : message.toolCalls()) {
                characters += call.id().length() + call.name().length() + call.arguments().length();
            }
        }
        length(characters);
        if (blank) {
            throw empty("at least one message with text");
        }
        for (ChatMessage message : messages) {
            text("messages", message.content());
            text("messages", message.reasoningContent());
            text("messages", message.name());
            text("messages", message.toolCallId());
            for (ToolCall call : message.toolCalls()) {
                text("messages", call.id());
                text("messages", call.name());
                text("messages", call.arguments());
            }
        }
        text("tools", options.tools());
    }

    private static int lengthOf(@Nullable String text) {
        return text == null ? 0 : text.length();
    }

    private void length(long characters) {
        if (characters > maxCharacters) {
            throw new InvalidRequestException("PROMPT_TOO_LARGE", "prompt: expected at most " + maxCharacters
                    + " characters, got " + characters + "; shorten it, the context is " + maxContext + " tokens");
        }
    }

    /// A lone surrogate is not text: no UTF-8 stands for it.
    private static void text(String where, @Nullable String text) {
        if (text == null) {
            return;
        }
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (!Character.isSurrogate(c)) {
                continue;
            }
            boolean pair = Character.isHighSurrogate(c)
                    && i + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(i + 1));
            if (!pair) {
                throw new InvalidRequestException("PROMPT_NOT_UTF8", where + ": expected Unicode text, got the lone "
                        + "surrogate U+" + Integer.toHexString(c).toUpperCase(java.util.Locale.ROOT)
                        + " at character " + i + "; send text that UTF-8 can hold");
            }
            i++;
        }
    }

    private static InvalidRequestException empty(String expected) {
        return new InvalidRequestException(
                "PROMPT_EMPTY", "prompt: expected " + expected + ", got none; send something to complete");
    }

    private static InvalidRequestException range(String name, Object value, String range) {
        return new InvalidRequestException(
                "PARAM_RANGE", name + ": expected " + range + ", got " + value + "; send a value in this range");
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

class RequestCheckTest {
    private static final RequestCheck CHECK = new RequestCheck(1000, 512);

    @Test
    void acceptsTheEdgesOfEveryRange() {
        assertThatCode(() -> {
                    CHECK.check(sampling(new Sampling(0f, 1f, 0, 0f, 1f, Long.MIN_VALUE)));
                    CHECK.check(sampling(new Sampling(-0f, Float.MIN_VALUE, Integer.MAX_VALUE, 1f, 0.1f, -1)));
                    CHECK.check(sampling(new Sampling(10f, 1f, 1, 0f, 10f, Long.MAX_VALUE)));
                    CHECK.check(request(new PromptInput.Text("x"), 512, Collections.nCopies(16, "s".repeat(256))));
                    CHECK.check(text("a".repeat(512 * 64)));
                    CHECK.check(text("\u0000 \u202e \uD83D\uDE00 " + "\u0301".repeat(1000)));
                    CHECK.check(request(new PromptInput.TokenIds(List.of(0, 999)), 1, List.of()));
                    CHECK.fits(500, 12, 512);
                })
                .doesNotThrowAnyException();
    }

    @Test
    void refusesPromptsWithoutText() {
        refused(text(""), "PROMPT_EMPTY", "prompt: expected a text with at least one character that is not white space, "
                + "got none; send something to complete");
        refused(text(" \n\t "), "PROMPT_EMPTY", null);
        refused(messages(List.of()), "PROMPT_EMPTY", "prompt: expected at least one message, got none; send something to "
                + "complete");
        refused(messages(List.of(ChatMessage.of("user", " "))), "PROMPT_EMPTY", "prompt: expected at least one message "
                + "with text, got none; send something to complete");
        refused(request(new PromptInput.TokenIds(List.of()), 5, List.of()), "PROMPT_EMPTY", "prompt: expected at least "
                + "one token id, got none; send something to complete");
    }

    @Test
    void refusesPromptsThatAreTooLarge() {
        String message = "prompt: expected at most 32768 characters, got 32769; shorten it, the context is 512 tokens";
        refused(text("a".repeat(512 * 64 + 1)), "PROMPT_TOO_LARGE", message);
        refused(messages(List.of(ChatMessage.of("user", "a".repeat(512 * 64)), ChatMessage.of("user", "b"))),
                "PROMPT_TOO_LARGE", message);
        refused(messages(Collections.nCopies(4097, ChatMessage.of("user", "b"))), "PARAM_LIMIT",
                "messages: expected at most 4096, got 4097; leave the oldest out");
        refused(request(new PromptInput.TokenIds(Collections.nCopies(513, 1)), 5, List.of()), "CONTEXT_OVERFLOW",
                "prompt: expected at most 512 token ids, the context, got 513; shorten the prompt");
    }

    @Test
    void refusesLoneSurrogates() {
        refused(text("ab\uD800"), "PROMPT_NOT_UTF8", "prompt: expected Unicode text, got the lone surrogate U+D800 at "
                + "character 2; send text that UTF-8 can hold");
        refused(text("\uDC00\uD800"), "PROMPT_NOT_UTF8", null);
        refused(messages(List.of(ChatMessage.of("user", "x\uD800y"))), "PROMPT_NOT_UTF8", null);
        refused(request(new PromptInput.Text("x"), 5, List.of("\uDFFF")), "PROMPT_NOT_UTF8", null);
        refused(request(
                new PromptInput.Messages(List.of(ChatMessage.of("user", "x")), new ChatOptions("[\uD800]", null, null, true)),
                5, List.of()), "PROMPT_NOT_UTF8", null);
    }

    @Test
    void refusesTokenIdsThatTheModelDoesNotHave() {
        refused(request(new PromptInput.TokenIds(List.of(1, 1000)), 5, List.of()), "TOKEN_ID_RANGE", "prompt: token id 1: "
                + "expected 0 to 999, got 1000; tokenize with this model's tokenizer");
        refused(request(new PromptInput.TokenIds(List.of(-1)), 5, List.of()), "TOKEN_ID_RANGE", null);
    }

    @Test
    void refusesCountsOfLogProbabilitiesOutOfRange() {
        GenerationRequest plain = request(new PromptInput.Text("x"), 5, List.of());
        for (int bad : new int[] {-2, 21, Integer.MIN_VALUE}) {
            refused(plain.withLogprobs(bad), "PARAM_RANGE", "logprobs: expected 0 to 20 tokens beside each, got " + bad
                    + "; send a value in this range");
        }
        for (int good : new int[] {GenerationRequest.NO_LOGPROBS, 0, 20}) {
            CHECK.check(plain.withLogprobs(good));
        }
    }

    @Test
    void refusesNumbersOfTokensOutOfRange() {
        for (int bad : new int[] {0, -1, 513, Integer.MAX_VALUE}) {
            refused(request(new PromptInput.Text("x"), bad, List.of()), "PARAM_RANGE",
                    "max_tokens: expected 1 to 512, got " + bad + "; send a value in this range");
        }
        assertThatThrownBy(() -> CHECK.fits(500, 13, 1000)).hasMessage("prompt: expected prompt and max_tokens to fit the "
                + "context of 512 tokens, got 500 + 13 = 513; shorten the prompt or lower max_tokens");
        assertThatThrownBy(() -> CHECK.fits(Integer.MAX_VALUE, 512, 1000)).hasMessageContaining("= 2147484159;");
        assertThatThrownBy(() -> CHECK.fits(300, 30, 320)).hasMessage("prompt: expected prompt and max_tokens to fit the KV "
                + "cache of 320 tokens, got 300 + 30 = 330; shorten the prompt, lower max_tokens, or raise "
                + "engine.kv.bytes");
    }

    @Test
    void refusesSamplingOutOfRange() {
        for (float bad : new float[] {Float.NaN, -1f, 1e30f, Float.POSITIVE_INFINITY, 10.1f}) {
            refused(sampling(new Sampling(bad, 1f, 0, 0f, 1f, 0)), "PARAM_RANGE",
                    "temperature: expected 0 (greedy) to 10, got " + bad + "; send a value in this range");
        }
        for (float bad : new float[] {0f, 1.0000001f, -0.1f, Float.NaN}) {
            refused(sampling(new Sampling(1f, bad, 0, 0f, 1f, 0)), "PARAM_RANGE",
                    "top_p: expected more than 0, at most 1 (all tokens), got " + bad + "; send a value in this range");
        }
        refused(sampling(new Sampling(1f, 1f, -5, 0f, 1f, 0)), "PARAM_RANGE",
                "top_k: expected 0 (all tokens) or more, got -5; send a value in this range");
        refused(sampling(new Sampling(1f, 1f, 0, Float.NaN, 1f, 0)), "PARAM_RANGE",
                "min_p: expected 0 (all tokens) to 1, got NaN; send a value in this range");
        for (float bad : new float[] {0f, -1f, 11f, Float.NaN}) {
            refused(sampling(new Sampling(1f, 1f, 0, 0f, bad, 0)), "PARAM_RANGE",
                    "repetition_penalty: expected 0.1 to 10, 1 for none, got " + bad + "; send a value in this range");
        }
    }

    @Test
    void refusesStopStringsOutOfLimits() {
        refused(request(new PromptInput.Text("x"), 5, Collections.nCopies(100_000, "s")), "PARAM_LIMIT",
                "stop: expected at most 16 strings, got 100000; leave some out");
        refused(request(new PromptInput.Text("x"), 5, List.of("ok", "")), "PARAM_LIMIT",
                "stop: string 1: expected 1 to 256 characters, got 0; leave it out or shorten it");
        refused(request(new PromptInput.Text("x"), 5, List.of("s".repeat(257))), "PARAM_LIMIT", null);
    }

    private static void refused(GenerationRequest request, String code, @org.jspecify.annotations.Nullable String message) {
        var thrown = assertThatThrownBy(() -> CHECK.check(request))
                .isInstanceOf(InvalidRequestException.class)
                .extracting(e -> ((InvalidRequestException) e).code());
        thrown.isEqualTo(code);
        if (message != null) {
            assertThatThrownBy(() -> CHECK.check(request)).hasMessage(message);
        }
    }

    private static GenerationRequest sampling(Sampling sampling) {
        return new GenerationRequest("r", new PromptInput.Text("x"), sampling, 5, List.of(), Long.MAX_VALUE, 0);
    }

    private static GenerationRequest text(String text) {
        return request(new PromptInput.Text(text), 5, List.of());
    }

    private static GenerationRequest messages(List<ChatMessage> messages) {
        return request(new PromptInput.Messages(messages, ChatOptions.DEFAULT), 5, List.of());
    }

    private static GenerationRequest request(PromptInput input, int maxNewTokens, List<String> stop) {
        return new GenerationRequest("r", input, Sampling.GREEDY, maxNewTokens, stop, Long.MAX_VALUE, 0);
    }
}

package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.ChatOptions;
import millrace.engine.GenerationRequest;
import millrace.engine.InvalidRequestException;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.ResponseFormat;
import millrace.integrity.NoteSigner;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.streams.Intake.Refusal;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;

class IntakeTest {
    private static final String SECRET = "what-the-user-wrote";
    private static final CacheSalts SALTS = new CacheSalts(NoteSigner.generate("test", new SecureRandom()), "");

    private final TestClock clock = new TestClock();
    private final ScriptedEngine engine = new ScriptedEngine();
    private final Intake intake = new Intake(engine, new Intake.Limits(1_000, 100, 20, false), SALTS, clock);
    private final Intake strict = new Intake(engine, new Intake.Limits(1_000, 100, 20, true), SALTS, clock);

    private static Source source(int valueBytes) {
        return new Source("llm.prompts", 1, 7, TestClock.START_MS, null, new byte[valueBytes], new RecordHeaders());
    }

    private static Source sourceOfTenant(String claimed) {
        RecordHeaders headers = new RecordHeaders();
        headers.add(Intake.TENANT_HEADER, claimed == null ? null : claimed.getBytes(StandardCharsets.UTF_8));
        return new Source("llm.prompts", 1, 7, TestClock.START_MS, null, new byte[10], headers);
    }

    private void refusesIdentity(Prompt.Builder prompt, String code, String message) {
        assertThat(intake.checkIdentity(prompt.build(), source(10))).isEqualTo(new Refusal(code, message));
    }

    private void refusesLimits(Prompt.Builder prompt, String code, String message) {
        assertThat(intake.checkLimits(prompt.build(), source(10))).isEqualTo(new Refusal(code, message));
    }

    private static Prompt.Builder good() {
        return prompt("r-1", SECRET);
    }

    private static Sampling.Builder sampling() {
        return Sampling.newBuilder();
    }

    @Test
    void letsAGoodPromptPass() {
        Prompt prompt = good().setTenant("acme.eu:7_x-y").setSessionId("s").setModel(ScriptedEngine.MODEL).setPriority(100)
                .setDeadlineMs(TestClock.START_MS + 1).setMetadata(Map.of("k".repeat(512), "v".repeat(512))).build();
        assertThat(intake.checkIdentity(prompt, sourceOfTenant("acme.eu:7_x-y"))).isNull();
        assertThat(intake.checkLimits(prompt, source(1_000))).isNull();
        assertThat(intake.checkIdentity(prompt("x".repeat(128), "q").build(), sourceOfTenant(null))).isNull();
    }

    @Test
    void refusesIdsThatCouldForgeALogLine() {
        String fake = "r-1\r\n12:00:00 INFO admin logged in";
        refusesIdentity(prompt(fake, SECRET), "ID_FORMAT",
                "request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 34 characters, with U+000D at 3");
        refusesIdentity(prompt("\u001b[31mred", SECRET), "ID_FORMAT",
                "request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 8 characters, with U+001B at 0");
        refusesIdentity(prompt("x".repeat(10_240), SECRET), "ID_FORMAT",
                "request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 10240 characters");
        refusesIdentity(prompt("", SECRET), "ID_FORMAT",
                "request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 0 characters");
        refusesIdentity(prompt("r-1\u202e", SECRET), "ID_FORMAT",
                "request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 4 characters, with U+202E at 3");
        refusesIdentity(good().setSessionId("a b"), "ID_FORMAT",
                "session_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got 3 characters, with U+0020 at 1");
        assertThat(Intake.presentable(fake)).isEqualTo("r-1??12:00:00?INFO?admin?logged?in");
        assertThat(Intake.presentable("x".repeat(10_240))).hasSize(128);
    }

    @Test
    void refusesTenantsThatAreForgedOrMissing() {
        refusesIdentity(good().setTenant("a/b"), "TENANT_FORMAT",
                "tenant: expected 1 to 64 characters of A-Z a-z 0-9 . _ : -, got 3 characters, with U+002F at 1");
        refusesIdentity(good().setTenant("x".repeat(65)), "TENANT_FORMAT",
                "tenant: expected 1 to 64 characters of A-Z a-z 0-9 . _ : -, got 65 characters");
        assertThat(strict.checkIdentity(good().build(), source(10))).isEqualTo(
                new Refusal("TENANT_MISSING", "tenant: expected a value (this service requires one), got none"));
        Refusal conflict = new Refusal("TENANT_CONFLICT",
                "tenant: the record's tenant header and its tenant field differ; send the field only, or both equal");
        assertThat(intake.checkIdentity(good().setTenant("acme").build(), sourceOfTenant("other"))).isEqualTo(conflict);
        assertThat(intake.checkIdentity(good().build(), sourceOfTenant("other"))).isEqualTo(conflict);
    }

    @Test
    void refusesChoicesThatItDoesNotKnow() {
        refusesLimits(good().setLogprobs(-1), "PARAM_RANGE", "logprobs: expected 0 to 20, got -1");
        refusesLimits(good().setLogprobs(21), "PARAM_RANGE", "logprobs: expected 0 to 20, got 21");
        refusesLimits(good().setReasoningEffort("\n" + "x".repeat(100)), "PARAM_RANGE",
                "reasoning_effort: expected high or max, got \"?" + "x".repeat(39) + "\"");
        Prompt prompt = good().setLogprobs(20).setToolChoice("auto").setReasoningEffort("max").build();
        assertThat(intake.checkLimits(prompt, source(10))).isNull();
    }

    @Test
    void refusesResponseFormatsThatItDoesNotKnow() {
        assertThatThrownBy(() -> intake.prepare(good().setResponseFormat("{\"type\":\"yaml\"}").build(), source(10)))
                .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo("RESPONSE_FORMAT"))
                .hasMessageContaining("expected text, json_object or json_schema, got \"yaml\"");
    }

    @Test
    void handsOnWhatTheAnswerShallCarry() {
        Prompt plain = good().build();
        assertThat(intake.prepare(plain, source(10)).request().logprobs()).isEqualTo(GenerationRequest.NO_LOGPROBS);
        assertThat(intake.prepare(plain, source(10)).request().format()).isEqualTo(ResponseFormat.TEXT);
        Prompt asking = good().setLogprobs(3).setResponseFormat("{\"type\":\"json_object\"}").build();
        assertThat(intake.prepare(asking, source(10)).request().logprobs()).isEqualTo(3);
        assertThat(intake.prepare(asking, source(10)).request().format()).isEqualTo(new ResponseFormat.JsonObject());
    }

    @Test
    void tellsTheModelOfItsToolsUnlessNoneMayBeCalled() {
        Message message = Message.newBuilder().setRole("user").setContent("hello").setToolCalls(List.of()).build();
        Prompt.Builder chat = Prompt.newBuilder().setRequestId("r").setMessages(List.of(message)).setTools("[]")
                .setReasoningEffort("high");
        assertThat(((PromptInput.Messages) Intake.input(chat.build())).options())
                .isEqualTo(new ChatOptions("[]", null, "high", true));
        assertThat(((PromptInput.Messages) Intake.input(chat.setToolChoice("none").build())).options().tools()).isNull();
        assertThat(((PromptInput.Messages) Intake.input(chat.setToolChoice("auto").build())).options().tools()).isEqualTo("[]");
        assertThat(Intake.format(chat.setToolChoice("required").build())).isEqualTo(new ResponseFormat.Calls("[]", null, true));
        assertThatThrownBy(() -> Intake.format(good().setTools("[]").setToolChoice("required").build())).as("tools need messages")
                .hasMessageStartingWith("tool_choice: expected tools beside it, with messages");
    }

    @Test
    void refusesRecordsThatAreTooLarge() {
        assertThat(intake.checkLimits(good().build(), source(1_001))).isEqualTo(
                new Refusal("PROMPT_TOO_LARGE", "record: expected at most 1000 bytes (intake.max.bytes), got 1001"));
        RecordHeaders headers = new RecordHeaders();
        headers.add("h", new byte[900]);
        Source withHeaders = new Source("t", 0, 0, 0, new byte[92], new byte[0], headers);
        assertThat(intake.checkLimits(good().build(), withHeaders)).as("headers and key count").isEqualTo(
                new Refusal("PROMPT_TOO_LARGE", "record: expected at most 1000 bytes (intake.max.bytes), got 1001"));
    }

    @Test
    void wantsExactlyOneFormOfThePrompt() {
        refusesLimits(Prompt.newBuilder().setRequestId("r"), "PROMPT_EMPTY",
                "record: expected exactly one of messages, prompt and token_ids, got 0");
        refusesLimits(good().setTokenIds(List.of(1)), "PROMPT_AMBIGUOUS",
                "record: expected exactly one of messages, prompt and token_ids, got 2");
        refusesLimits(good().setTokenIds(List.of(1)).setMessages(List.of()), "PROMPT_AMBIGUOUS",
                "record: expected exactly one of messages, prompt and token_ids, got 3");
    }

    @Test
    void refusesAnotherModel() {
        refusesLimits(good().setModel("gpt"), "MODEL_UNKNOWN",
                "model: this service serves \"scripted\"; leave the field out or name that one");
    }

    @Test
    void refusesPrioritiesOutOfRange() {
        refusesLimits(good().setPriority(101), "PARAM_RANGE", "priority: expected -100 to 100, got 101");
        refusesLimits(good().setPriority(Integer.MIN_VALUE), "PARAM_RANGE", "priority: expected -100 to 100, got -2147483648");
    }

    @Test
    void refusesMetadataThatIsTooMuch() {
        Map<String, String> many = new HashMap<>();
        for (int i = 0; i < 33; i++) {
            many.put("k" + i, "v");
        }
        refusesLimits(good().setMetadata(many), "PARAM_LIMIT", "metadata: expected at most 32 entries, got 33");
        refusesLimits(good().setMetadata(Map.of("k", SECRET.repeat(50))), "PARAM_LIMIT",
                "metadata: expected keys and values of at most 512 characters, got 950");
        refusesLimits(good().setMetadata(Map.of(SECRET.repeat(50), "v")), "PARAM_LIMIT",
                "metadata: expected keys and values of at most 512 characters, got 950");
    }

    @Test
    void refusesDeadlinesThatArePastOrAMistake() {
        long now = TestClock.START_MS;
        refusesLimits(good().setDeadlineMs(now), "DEADLINE",
                "deadline_ms: expected a time after the record's own (" + now + "), got " + now);
        refusesLimits(good().setDeadlineMs(Long.MIN_VALUE), "DEADLINE",
                "deadline_ms: expected a time after the record's own (" + now + "), got -9223372036854775808");
        refusesLimits(good().setDeadlineMs(4_070_908_800_000L), "DEADLINE",
                "deadline_ms: expected at most 7 days from now (it is " + now + ", in milliseconds since the epoch), got 4070908800000");
        refusesLimits(good().setDeadlineMs(now * 1_000), "DEADLINE",
                "deadline_ms: expected at most 7 days from now (it is " + now + ", in milliseconds since the epoch), got " + now * 1_000);
    }

    @Test
    void refusesCountsOfTokensOutOfRange() {
        for (int wanted : new int[] {0, -1, 101, Integer.MAX_VALUE}) {
            Prompt prompt = good().setSampling(sampling().setMaxTokens(wanted).build()).build();
            assertThatThrownBy(() -> intake.prepare(prompt, source(10)))
                    .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo("PARAM_RANGE"))
                    .hasMessage("max_tokens: expected 1 to 100 (intake.max.tokens), got " + wanted);
        }
    }

    @Test
    void fillsInWhatThePromptLeavesOpen() {
        PreparedPrompt prepared = intake.prepare(good().build(), source(10));
        assertThat(prepared.request().maxNewTokens()).isEqualTo(20);
        assertThat(prepared.request().sampling())
                .isEqualTo(new millrace.engine.Sampling(0f, 1f, 0, 0f, 1f, source(10).seed()));
        assertThat(prepared.request().deadlineMs()).isEqualTo(Long.MAX_VALUE);
        assertThat(prepared.request().stop()).isEmpty();
        assertThat(source(10).seed()).as("the same at every attempt").isEqualTo(source(99).seed());

        PreparedPrompt own = intake.prepare(
                good().setSampling(sampling().setSeed(Long.MIN_VALUE).setTemperature(0.5f).setStop(List.of("\n")).build())
                        .setDeadlineMs(5L).setPriority(-3).build(),
                source(10));
        assertThat(own.request().sampling()).isEqualTo(new millrace.engine.Sampling(0.5f, 1f, 0, 0f, 1f, Long.MIN_VALUE));
        assertThat(own.request().stop()).containsExactly("\n");
        assertThat(own.request().deadlineMs()).isEqualTo(5);
        assertThat(own.request().priority()).isEqualTo(-3);
    }

    @Test
    void handsEveryFormOfThePromptToTheEngine() {
        assertThat(intake.prepare(good().build(), source(10)).request().input()).isEqualTo(new PromptInput.Text(SECRET));
        Prompt ids = Prompt.newBuilder().setRequestId("r").setTokenIds(List.of(4, 5)).build();
        assertThat(intake.prepare(ids, source(10)).request().input()).isEqualTo(new PromptInput.TokenIds(List.of(4, 5)));
        Message message = Message.newBuilder().setRole("user").setContent("hello").setToolCalls(List.of()).build();
        Prompt chat = Prompt.newBuilder().setRequestId("r").setMessages(List.of(message)).setThinking(true).setTools("[]").build();
        assertThat(intake.prepare(chat, source(10)).request().input()).isInstanceOfSatisfying(PromptInput.Messages.class, messages -> {
            assertThat(messages.messages().getFirst().content()).isEqualTo("hello");
            assertThat(messages.options().thinking()).isTrue();
            assertThat(messages.options().tools()).isEqualTo("[]");
        });
    }

    @Test
    void saltsTheCacheByTenantWhateverThePromptSays() {
        String acme = intake.prepare(good().setTenant("acme").build(), source(10)).request().cacheSalt();
        String other = intake.prepare(good().setTenant("other").build(), source(10)).request().cacheSalt();
        assertThat(acme).isEqualTo(SALTS.of("acme")).isNotEqualTo(other);
        assertThat(intake.prepare(good().setTenant("acme").setSessionId("s").build(), source(10)).request().cacheSalt())
                .isEqualTo(acme);
        assertThat(intake.prepare(good().build(), source(10)).request().cacheSalt()).isEqualTo(SALTS.of(null));
    }

    @Test
    void neverRepeatsWhatTheUserWroteInAMessage() {
        List<Prompt> bad = List.of(
                prompt("bad id " + SECRET, SECRET).build(),
                good().setTenant(SECRET + "/").build(),
                good().setModel(SECRET).build(),
                good().setMetadata(Map.of(SECRET, SECRET.repeat(99))).build(),
                good().setTokenIds(Collections.nCopies(3, 1)).build(),
                good().setPriority(1_000).build(),
                good().setSessionId(SECRET + " ").build());
        for (Prompt prompt : bad) {
            Refusal refusal = intake.checkIdentity(prompt, source(10));
            if (refusal == null) {
                refusal = intake.checkLimits(prompt, source(10));
            }
            assertThat(refusal).isNotNull();
            assertThat(refusal.message()).doesNotContain(SECRET);
        }
    }
}

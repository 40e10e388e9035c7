package millrace.streams.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import millrace.schemas.Prompt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BodiesTest {
    private static final String HELLO = "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]";

    private static InferenceRequest chat(String fields) {
        return Bodies.chat(Json.read(("{" + fields + "}").getBytes(StandardCharsets.UTF_8)));
    }

    private static ApiException refusal(String fields) {
        return catchThrowableOfType(ApiException.class, () -> chat(fields));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "\"frequency_penalty\":0.5 | frequency_penalty | unsupported_parameter",
        "\"presence_penalty\":-1 | presence_penalty | unsupported_parameter",
        "\"logit_bias\":{\"5\":1} | logit_bias | unsupported_parameter",
        "\"store\":true | store | unsupported_parameter",
        "\"service_tier\":\"flex\" | service_tier | unsupported_value",
        "\"parallel_tool_calls\":false | parallel_tool_calls | unsupported_parameter",
        "\"tool_choice\":\"any\" | tool_choice | unsupported_value",
        "\"tool_choice\":\"auto\" | tool_choice | invalid_value",
        "\"tool_choice\":{\"type\":\"function\"} | tool_choice.function | missing_required_parameter",
        "\"tools\":[{\"type\":\"custom\",\"custom\":{}}] | tools[0].type | unsupported_value",
        "\"functions\":[] | functions | unsupported_parameter",
        "\"verbosity\":\"low\" | verbosity | unsupported_parameter",
        "\"modalities\":[\"text\",\"audio\"] | modalities | unsupported_value",
        "\"reasoning_effort\":\"medium\" | reasoning_effort | unsupported_value",
        "\"response_format\":{\"type\":\"grammar\"} | response_format.type | unsupported_value",
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}} | response_format.json_schema.schema | missing_required_parameter",
        "\"top_logprobs\":2 | top_logprobs | invalid_value",
        "\"logprobs\":true,\"top_logprobs\":21 | top_logprobs | invalid_value",
        "\"n\":17 | n | invalid_value",
        "\"n\":\"two\" | n | invalid_type",
        "\"temperature\":3 | temperature | invalid_value",
        "\"top_p\":0 | top_p | invalid_value",
        "\"max_tokens\":0 | max_tokens | invalid_value",
        "\"max_tokens\":5,\"max_completion_tokens\":6 | max_tokens | invalid_value",
        "\"stop\":[\"a\",3] | stop[1] | invalid_type",
        "\"stop\":\"\" | stop | invalid_value",
        "\"stream_options\":{\"include_usage\":true} | stream_options | invalid_value",
        "\"stream\":true,\"stream_options\":{\"include_obfuscation\":true} | stream_options.include_obfuscation | unsupported_parameter",
        "\"metadata\":{\"a\":1} | metadata.a | invalid_type",
        "\"millrace\":{\"priority\":101} | millrace.priority | invalid_value",
        "\"millrace\":{\"session_id\":\"a b\"} | millrace.session_id | invalid_value",
        "\"millrace\":{\"other\":1} | millrace.other | unknown_parameter",
        "\"chat_template_kwargs\":{\"custom\":1} | chat_template_kwargs.custom | unknown_parameter",
        "\"frobnicate\":1 | frobnicate | unknown_parameter"})
    void whatCannotBeHonouredIsRefusedByItsPath(String fields, String param, String code) {
        ApiException refusal = refusal(HELLO + "," + fields);
        assertThat(refusal).isNotNull();
        assertThat(refusal.status()).isEqualTo(400);
        assertThat(refusal.param()).isEqualTo(param);
        assertThat(refusal.code()).isEqualTo(code);
        assertThat(refusal.text()).startsWith(param + ": ");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "\"messages\":[] | messages",
        "\"messages\":[{\"role\":\"robot\",\"content\":\"x\"}] | messages[0].role",
        "\"messages\":[{\"role\":\"user\"}] | messages[0].content",
        "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}] | messages[0].content[0].type",
        "\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"tool\",\"content\":\"y\"}] | messages[1].tool_call_id",
        "\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[]}] | messages[0].tool_calls",
        "\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\"}}]}] | messages[0].tool_calls[0].function.arguments"})
    void aMessageIsRefusedByItsPath(String fields, String param) {
        assertThat(refusal(fields).param()).isEqualTo(param);
    }

    @Test
    void callsCanBeRequired() {
        String tools = ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true}}]";
        InferenceRequest required = chat(HELLO + tools + ",\"tool_choice\":\"required\"");
        assertThat(required.toolChoice()).isEqualTo("required");
        assertThat(required.tools()).contains("\"strict\":true");
        String named = "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}";
        assertThat(chat(HELLO + tools + ",\"parallel_tool_calls\":false,\"tool_choice\":" + named).toolChoice()).isEqualTo(named);
    }

    @Test
    void whatSaysNothingIsAsGoodAsAbsent() {
        InferenceRequest request = chat(HELLO + ",\"frequency_penalty\":0,\"logit_bias\":{},\"store\":false,\"stop\":null,\"tools\":[],\"n\":null,"
                + "\"service_tier\":\"auto\",\"modalities\":[\"text\"],\"parallel_tool_calls\":true,\"reasoning_effort\":null");
        assertThat(request).isEqualTo(chat(HELLO));
        assertThat(request.sampling().getTemperature()).as("the interface's default").isEqualTo(1f);
    }

    @Test
    void everythingThatIsHonouredReachesThePrompt() {
        InferenceRequest request = chat("\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"be \"},{\"type\":\"text\",\"text\":\"brief\"}]},"
                + "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
                + "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"7\"}],\"model\":\"m\",\"n\":2,\"seed\":5,\"temperature\":0.5,\"top_p\":0.9,\"top_k\":3,"
                + "\"max_completion_tokens\":9,\"stop\":[\"a\",\"b\"],\"logprobs\":true,\"top_logprobs\":4,\"response_format\":{\"type\":\"json_object\"},"
                + "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"none\",\"reasoning_effort\":\"high\","
                + "\"thinking\":{\"type\":\"enabled\"},\"user\":\"u\",\"metadata\":{\"k\":\"v\"},\"prompt_cache_key\":\"s 1\","
                + "\"millrace\":{\"priority\":-3,\"deadline_ms\":900}");
        List<Prompt> prompts = request.prompts("id", "tenant", 800L, true);
        assertThat(prompts).extracting(Prompt::getRequestId).containsExactly("id.0", "id.1");
        Prompt second = prompts.get(1);
        assertThat(second.getSampling().getSeed()).isEqualTo(6);
        assertThat(second.getSampling().getMaxTokens()).isEqualTo(9);
        assertThat(second.getSampling().getStop()).containsExactly("a", "b");
        assertThat(second.getSampling().getTopK()).isEqualTo(3);
        assertThat(second.getMessages()).extracting(millrace.schemas.Message::getRole).containsExactly("system", "assistant", "tool");
        assertThat(second.getMessages().getFirst().getContent()).isEqualTo("be brief");
        assertThat(second.getMessages().get(1).getToolCalls().getFirst().getName()).isEqualTo("f");
        assertThat(second.getTenant()).isEqualTo("tenant");
        assertThat(second.getDeadlineMs()).as("the earlier of both").isEqualTo(800);
        assertThat(second.getLogprobs()).isEqualTo(4);
        assertThat(second.getResponseFormat()).isEqualTo("{\"type\":\"json_object\"}");
        assertThat(second.getToolChoice()).isEqualTo("none");
        assertThat(second.getReasoningEffort()).isEqualTo("high");
        assertThat(second.getThinking()).isTrue();
        assertThat(second.getMetadata()).isEqualTo(java.util.Map.of("k", "v", "user", "u"));
        assertThat(second.getSessionId()).as("a key of other characters is hashed").matches("[0-9a-f]{32}");
        assertThat(second.getPriority()).isEqualTo(-3);
        assertThat(second.getPreview()).isTrue();
        assertThat(request.prompts("id", null, null, false).getFirst().getDeadlineMs()).isEqualTo(900);
    }

    @Test
    void jsonIsReadStrictlyAndNeverQuoted() {
        for (String bad : List.of("", "[1]", "{\"a\":1,\"a\":2}", "{\"a\":secret}", "{} x", "{\"a\":" + "[".repeat(70) + "]".repeat(70) + "}")) {
            ApiException e = catchThrowableOfType(ApiException.class, () -> Json.read(bad.getBytes(StandardCharsets.UTF_8)));
            assertThat(e.code()).as(bad).isEqualTo("invalid_json");
            assertThat(e.text()).doesNotContain("secret");
        }
        assertThat(catchThrowableOfType(ApiException.class, () -> Json.read(new byte[] {'"', (byte) 0xff, '"'})).code()).isEqualTo("invalid_json");
    }

    @Test
    void textRequestsTakeOnePrompt() {
        assertThat(Bodies.text(Json.read("{\"prompt\":\"once\",\"max_tokens\":3}".getBytes(StandardCharsets.UTF_8))).text()).isEqualTo("once");
        assertThat(Bodies.text(Json.read("{\"prompt\":[5,6]}".getBytes(StandardCharsets.UTF_8))).tokenIds()).containsExactly(5, 6);
        ApiException e = catchThrowableOfType(ApiException.class,
                () -> Bodies.text(Json.read("{\"prompt\":[\"a\",\"b\"]}".getBytes(StandardCharsets.UTF_8))));
        assertThat(e.param()).isEqualTo("prompt[0]");
        assertThat(catchThrowableOfType(ApiException.class,
                () -> Bodies.text(Json.read("{\"prompt\":\"a\",\"suffix\":\"b\"}".getBytes(StandardCharsets.UTF_8)))).param()).isEqualTo("suffix");
    }

    /// Whatever the body: it is refused for one field with one line, or gives as many prompts as it asks for, each of one kind.
    @Test
    void anyBodyIsTakenOrRefusedByItsPath() {
        String sound = "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}],"
                + "\"n\":2,\"seed\":5,\"temperature\":0.5,\"stop\":[\"a\"],\"logprobs\":true,\"top_logprobs\":4,\"max_tokens\":3,"
                + "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"response_format\":{\"type\":\"json_object\"},"
                + "\"metadata\":{\"k\":\"v\"},\"millrace\":{\"priority\":-3}}";
        String[] words = {"null", "{}", "[]", "1e999", "-1", "\"\"", "true", "false", "[[", "\"\\u0000\"", "\"auto\"", "0", "1", "3.5", "9".repeat(40)};
        assertThat(Bodies.chat(Json.read(sound.getBytes(StandardCharsets.UTF_8))).n()).isEqualTo(2);
        SplittableRandom random = new SplittableRandom(20261130);
        int taken = 0;
        for (int i = 0; i < 20_000; i++) {
            List<MatchResult> tokens = Pattern.compile("\"[a-z_0-9]*\"|[0-9.-]+|true").matcher(sound).results().toList();
            MatchResult token = tokens.get(random.nextInt(tokens.size()));
            StringBuilder text = new StringBuilder(sound).replace(token.start(), token.end(), words[random.nextInt(words.length)]);
            for (int changes = random.nextInt(3); changes > 0; changes--) {
                int at = random.nextInt(text.length());
                switch (random.nextInt(3)) {
                    case 0 -> text.setCharAt(at, (char) random.nextInt(1, 256));
                    case 1 -> text.deleteCharAt(at);
                    default -> text.insert(at, words[random.nextInt(words.length)]);
                }
            }
            try {
                InferenceRequest request = Bodies.chat(Json.read(text.toString().getBytes(StandardCharsets.UTF_8)));
                assertThat(request.prompts("id", null, null, false)).as("round %d", i).hasSize(request.n())
                        .allMatch(prompt -> prompt.getMessages() != null && prompt.getPrompt() == null && prompt.getTokenIds() == null);
                taken++;
            } catch (ApiException e) {
                assertThat(e.status()).as("round %d", i).isEqualTo(400);
                assertThat(e.text()).as("round %d", i).isNotBlank().doesNotContain("\n");
            } catch (RuntimeException e) {
                throw new AssertionError("round " + i + ": " + text, e);
            }
        }
        assertThat(taken).isGreaterThan(300);
    }
}

package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import millrace.engine.guide.SchemaJudge;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// The bundled models, which have never seen a tool, call those that they have to.
@Timeout(180)
class EngineCallsTest {
    private static final String PARAMETERS = "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":8},"
            + "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"city\",\"days\"]}";
    private static final String TOOLS = "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"strict\":true,\"parameters\":" + PARAMETERS
            + "}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";

    private static EngineConfig config(String model, String chatFormat) {
        return EngineConfig.of(Path.of("../streams/src/main/resources/models", model)).withThreads(2).withChatFormat(chatFormat);
    }

    private static GenerationRequest request(int seed, String choice) {
        var options = new ChatOptions(TOOLS, false, null, true);
        var input = new PromptInput.Messages(List.of(ChatMessage.of("user", "Rain?")), options);
        return new GenerationRequest("c" + seed, input, new Sampling(1f, 1f, 0, 0f, 1f, seed), 200, List.of(), Long.MAX_VALUE, 0)
                .withFormat(ResponseFormat.withTools(ResponseFormat.TEXT, TOOLS, choice));
    }

    @ParameterizedTest
    @CsvSource({"glm-tiny, glm-4.5", "glm-tiny, glm-4.7", "kimi-tiny, kimi-k2", "kimi-tiny, kimi-k2.5"})
    void everyAnswerIsACall(String model, String chatFormat) throws Exception {
        SchemaJudge judge = new SchemaJudge(new ObjectMapper().readTree(PARAMETERS));
        try (Engine engine = Engine.open(config(model, chatFormat).withMaxBatch(8))) {
            int whole = 0;
            for (int seed = 0; seed < 12; seed++) {
                boolean named = seed % 2 == 0;
                PreparedPrompt prompt = engine.prepare(request(seed,
                        named ? "{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}" : "required"));
                var end = new CompletableFuture<GenerationResult>();
                engine.submit(prompt, end::complete);
                GenerationResult result = end.join();
                assertThat(result.reason()).as(result.text()).isIn(FinishReason.STOP, FinishReason.LENGTH);
                ReplyReader reader = engine.replies(prompt);
                reader.feed(result.text());
                reader.end();
                List<ToolCall> calls = reader.reply().toolCalls();
                if (result.reason() == FinishReason.STOP) {
                    whole++;
                    assertThat(calls).as(result.text()).isNotEmpty();
                    assertThat(reader.reply().content()).as(result.text()).isEmpty();
                }
                for (ToolCall call : calls) {
                    JsonNode arguments = new ObjectMapper().readTree(call.arguments());
                    assertThat(call.name()).isIn("weather", "now");
                    assertThat(call.name().equals("now") ? arguments.isEmpty() : judge.accepts(arguments)).as(result.text()).isTrue();
                }
                if (named && result.reason() == FinishReason.STOP) {
                    assertThat(calls).as(result.text()).extracting(ToolCall::name).containsExactly("weather");
                }
                follows(engine, prompt, result);
            }
            assertThat(whole).as(chatFormat).isGreaterThan(6);
        }
    }

    /// What an auditor computes again is held to the same form: every token that was chosen may be.
    private static void follows(Engine engine, PreparedPrompt prompt, GenerationResult result) {
        List<Integer> chosen = new ArrayList<>();
        var end = new CompletableFuture<GenerationResult>();
        engine.submit(prompt, end::complete);
        chosen.addAll(end.join().tokenIds());
        assertThat(chosen).isEqualTo(result.tokenIds());
    }

    @Test
    void refusesWhereTheFormatHasNoCalls() {
        try (Engine engine = Engine.open(config("glm-tiny", "glm-plain"))) {
            assertThatThrownBy(() -> engine.prepare(request(1, "required")))
                    .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isIn("TOOL_CHOICE", "TOOLS_INVALID"));
        }
    }

    @Test
    void readsWhatIsAskedFor() {
        ResponseFormat text = ResponseFormat.TEXT;
        ResponseFormat object = new ResponseFormat.JsonObject();
        assertThat(ResponseFormat.withTools(text, null, null)).isEqualTo(text);
        assertThat(ResponseFormat.withTools(text, "[{\"name\":\"a\"}]", "auto")).isEqualTo(text);
        assertThat(ResponseFormat.withTools(text, TOOLS, "none")).isEqualTo(text);
        assertThat(ResponseFormat.withTools(object, TOOLS, null)).as("the answer is the document").isEqualTo(object);
        assertThat(ResponseFormat.withTools(text, TOOLS, null)).isEqualTo(new ResponseFormat.Calls(TOOLS, null, false));
        assertThat(ResponseFormat.withTools(text, TOOLS, "required")).isEqualTo(new ResponseFormat.Calls(TOOLS, null, true));
        assertThat(ResponseFormat.withTools(text, TOOLS, "{\"type\":\"function\",\"function\":{\"name\":\"now\"}}"))
                .isEqualTo(new ResponseFormat.Calls(TOOLS, "now", true));
        assertThat(new ResponseFormat.Calls("[]", "now", true).text())
                .isEqualTo("{\"type\":\"tool_calls\",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"now\"}},\"tools\":[]}");
        assertThat(new ResponseFormat.Calls("[]", null, true).text()).isEqualTo("{\"type\":\"tool_calls\",\"tool_choice\":\"required\",\"tools\":[]}");
        assertThat(new ResponseFormat.Calls("[]", null, false).text()).isEqualTo("{\"type\":\"tool_calls\",\"tool_choice\":\"auto\",\"tools\":[]}");
        refused(text, TOOLS, "any", "tool_choice: expected auto, none, required, or {\"type\":\"function\"");
        refused(text, TOOLS, "{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}", "tool_choice: expected auto, none, required, or {");
        refused(text, null, "required", "tool_choice: expected tools beside it, with messages, got none");
        refused(object, TOOLS, "required", "tool_choice: expected auto or none beside response_format, got a call that is required");
    }

    private static void refused(ResponseFormat format, String tools, String choice, String message) {
        assertThatThrownBy(() -> ResponseFormat.withTools(format, tools, choice))
                .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo("TOOL_CHOICE"))
                .hasMessageStartingWith(message);
    }
}

package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.EngineException;
import millrace.engine.InvalidModelException;
import millrace.engine.InvalidRequestException;
import millrace.engine.ToolCall;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ChatFormatTest {
    private static final ChatOptions QUIET = new ChatOptions(null, false, null, true);
    private static final Tokenizer ALL_MARKERS = allMarkers();

    private static Tokenizer allMarkers() {
        List<String> markers =
                new ArrayList<>(List.of("<think>", "</think>", "<tool_call>", "</tool_call>", "/nothink"));
        ChatFormats.ids().forEach(id -> markers.addAll(ChatFormats.byId(id).markers()));
        return Samples.withMarkers(markers);
    }

    private static String render(String format, ChatOptions options, ChatMessage... messages) {
        Rendered rendered = ChatFormats.byId(format).render(List.of(messages), options, ALL_MARKERS);
        assertThat(ALL_MARKERS.decode(rendered.ids())).isEqualTo(rendered.text());
        return rendered.text();
    }

    private static ChatMessage user(String text) {
        return ChatMessage.of("user", text);
    }

    private static ChatMessage assistant(String text, String reasoning, ToolCall... calls) {
        return new ChatMessage("assistant", text, reasoning, null, null, List.of(calls));
    }

    private static ChatMessage tool(String text, String name, String callId) {
        return new ChatMessage("tool", text, null, name, callId, List.of());
    }

    private static ChatOptions tools(String json) {
        return new ChatOptions(json, null, null, true);
    }

    @ParameterizedTest
    @CsvSource({
        "GLM-4.6, glm-4.5, simple nothink multi tools",
        "GLM-5.2, glm-5, simple nothink tools",
        "Kimi-K2-Thinking, kimi-k2-thinking, simple multi tools",
        "moonshotai-Kimi-K2, kimi-k2-early, simple nothink multi tools",
        "Qwen-Qwen3-0.6B, qwen3, simple multi"
    })
    void rendersAsTheModelsTemplates(String template, String format, String cases) {
        JsonNode all = Samples.json(Samples.text("renders/cases.json"));
        for (String name : cases.split(" ")) {
            JsonNode sample = all.path(name);
            List<ChatMessage> messages = new ArrayList<>();
            sample.path("messages").forEach(message -> messages.add(message(message)));
            JsonNode thinking = sample.path("enable_thinking");
            ChatOptions options = new ChatOptions(
                    sample.has("tools") ? sample.path("tools").toString() : null,
                    thinking.isBoolean() ? thinking.booleanValue() : null,
                    null,
                    sample.path("add_generation_prompt").booleanValue());
            assertThat(render(format, options, messages.toArray(ChatMessage[]::new)))
                    .as(name)
                    .isEqualTo(Samples.text("renders/" + template + "." + name + ".txt"));
        }
    }

    private static ChatMessage message(JsonNode node) {
        List<ToolCall> calls = new ArrayList<>();
        for (JsonNode call : node.path("tool_calls")) {
            JsonNode function = call.path("function");
            calls.add(new ToolCall(
                    call.path("id").asText(),
                    function.path("name").asText(),
                    function.path("arguments").toString()));
        }
        return new ChatMessage(
                node.path("role").asText(),
                node.path("content").asText(),
                node.path("reasoning_content").textValue(),
                node.path("name").textValue(),
                node.path("tool_call_id").textValue(),
                calls);
    }

    @Test
    void rendersGlm47() {
        assertThat(render("glm-4.7", ChatOptions.DEFAULT, user("Hi")))
                .isEqualTo("[gMASK]<sop><|user|>Hi<|assistant|><think>");
        assertThat(render("glm-4.7", QUIET, ChatMessage.of("system", "Be brief."), user("Hi")))
                .isEqualTo("[gMASK]<sop><|system|>Be brief.<|user|>Hi<|assistant|></think>");
        assertThat(render("glm-4.7", ChatOptions.DEFAULT, user("Q1"), assistant("A1", "R1"), user("Q2")))
                .isEqualTo("[gMASK]<sop><|user|>Q1<|assistant|></think>A1<|user|>Q2<|assistant|><think>");
        assertThat(render(
                        "glm-4.7",
                        ChatOptions.DEFAULT,
                        user("Q"),
                        assistant(" ", "\nR\n", new ToolCall("", "f", "{\"k\":[1,\"é\"],\"s\":\"x y\"}")),
                        tool("1", "f", null),
                        tool("2", "f", null)))
                .isEqualTo("[gMASK]<sop><|user|>Q<|assistant|><think>R</think><tool_call>f<arg_key>k</arg_key>"
                        + "<arg_value>[1, \"é\"]</arg_value><arg_key>s</arg_key><arg_value>x y</arg_value></tool_call>"
                        + "<|observation|><tool_response>1</tool_response><tool_response>2</tool_response>"
                        + "<|assistant|><think>");
    }

    @Test
    void rendersGlm45ReasoningFromTheContent() {
        assertThat(render("glm-4.5", QUIET, user("Hi/nothink"), assistant("<think>\nR\n</think>\n\nA\n", null)))
                .isEqualTo("[gMASK]<sop><|user|>\nHi/nothink<|assistant|>\n<think>R</think>\nA"
                        + "<|assistant|>\n<think></think>");
        assertThat(render("glm-4.5", ChatOptions.DEFAULT, user("Q"), assistant("", null, new ToolCall("", "f", ""))))
                .isEqualTo("[gMASK]<sop><|user|>\nQ<|assistant|>\n<think></think>\n<tool_call>f\n</tool_call>"
                        + "<|assistant|>");
    }

    @Test
    void rendersGlm5EffortAndTools() {
        ChatOptions high = new ChatOptions("""
            [{"type":"function","function":{"name":"a","strict":true,"parameters":{}}},
             {"type":"function","function":{"name":"b","defer_loading":true}}]\
            """, null, "high", true);
        assertThat(render("glm-5", high, user("Q")))
                .startsWith("[gMASK]<sop><|system|>Reasoning Effort: High<|system|>\n# Tools\n")
                .contains("<tools>\n{\"name\": \"a\", \"parameters\": {}}\n</tools>")
                .endsWith("...</tool_call><|user|>Q<|assistant|><think>");
        assertThat(render("glm-5", ChatOptions.DEFAULT, user("Q1"), assistant("A1", "R1"), user("Q2")))
                .isEqualTo("[gMASK]<sop><|system|>Reasoning Effort: Max<|user|>Q1<|assistant|><think></think>A1"
                        + "<|user|>Q2<|assistant|><think>");
    }

    @Test
    void rendersKimiK2() {
        String system =
                "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>";
        assertThat(render(
                        "kimi-k2",
                        tools("[{\"b\":1.0,\"a\":1e-7}]"),
                        new ChatMessage("user", "Q", null, "Ann", null, List.of()),
                        assistant("A", "R", new ToolCall("", "f", "{}"), new ToolCall("", "g", "{}")),
                        tool("1", null, null),
                        tool("2", "g", "own")))
                .isEqualTo("<|im_system|>tool_declare<|im_middle|>[{\"b\": 1.0, \"a\": 1e-07}]<|im_end|>" + system
                        + "<|im_user|>Ann<|im_middle|>Q<|im_end|><|im_assistant|>assistant<|im_middle|>A"
                        + "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}"
                        + "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}"
                        + "<|tool_call_end|><|tool_calls_section_end|><|im_end|><|im_system|>tool<|im_middle|>##"
                        + " Return of functions.f:0\n"
                        + "1<|im_end|><|im_system|>g<|im_middle|>## Return of own\n"
                        + "2<|im_end|><|im_assistant|>assistant<|im_middle|>");
    }

    @Test
    void rendersKimiK25AndK27() {
        String turns =
                "<|im_user|>user<|im_middle|>Q1<|im_end|><|im_assistant|>assistant<|im_middle|><think>%s</think>A1"
                        + "<|im_end|><|im_user|>user<|im_middle|>Q2<|im_end|><|im_assistant|>assistant<|im_middle|>%s";
        String system =
                "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>";
        ChatMessage[] messages = {user("Q1"), assistant("A1", "R1"), user("Q2")};
        assertThat(render("kimi-k2.5", ChatOptions.DEFAULT, messages))
                .isEqualTo(system + turns.formatted("", "<think>"));
        assertThat(render("kimi-k2.5", QUIET, messages)).isEqualTo(system + turns.formatted("", "<think></think>"));
        assertThat(render("kimi-k2.7", QUIET, messages)).isEqualTo(turns.formatted("R1", "<think>"));
    }

    @Test
    void rendersQwen() {
        assertThat(render("qwen3", QUIET, user("Hi")))
                .isEqualTo("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
        assertThat(render(
                        "qwen3",
                        tools("[{\"a\":1}]"),
                        ChatMessage.of("system", "S"),
                        user("Q"),
                        assistant("", "R", new ToolCall("", "f", "{\"x\":1}"), new ToolCall("", "g", "{}")),
                        tool("1", null, null),
                        tool("2", null, null)))
                .isEqualTo("<|im_start|>system\nS\n\n# Tools\n\nYou may call one or more functions to assist with the"
                        + " user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n"
                        + "<tools>\n{\"a\": 1}\n</tools>\n\nFor each function call, return a json object with function"
                        + " name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\":"
                        + " <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n"
                        + "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n<think>\nR\n</think>\n\n"
                        + "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>\n"
                        + "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>\n"
                        + "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
                        + "<|im_end|>\n<|im_start|>assistant\n");
        assertThat(render("qwen2.5", ChatOptions.DEFAULT, user("Q"), assistant("", null, new ToolCall("", "f", "{}"))))
                .isEqualTo("<|im_start|>system\n"
                        + "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
                        + "<|im_start|>user\n"
                        + "Q<|im_end|>\n"
                        + "<|im_start|>assistant\n"
                        + "<tool_call>\n"
                        + "{\"name\": \"f\", \"arguments\": {}}\n"
                        + "</tool_call><|im_end|>\n"
                        + "<|im_start|>assistant\n");
        assertThat(render("qwen2", ChatOptions.DEFAULT, user("Q")))
                .isEqualTo("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n"
                        + "<|im_start|>assistant\n");
        assertThat(render("chatml", new ChatOptions(null, null, null, false), user("Q")))
                .isEqualTo("<|im_start|>user\nQ<|im_end|>\n");
    }

    @Test
    void rendersDeepSeek() {
        assertThat(render(
                        "deepseek-v3",
                        ChatOptions.DEFAULT,
                        ChatMessage.of("system", "S1"),
                        user("Q1"),
                        assistant("A1", "R1"),
                        ChatMessage.of("system", "S2"),
                        user("Q2")))
                .isEqualTo("<｜begin▁of▁sentence｜>S1\n\nS2<｜User｜>Q1<｜Assistant｜>A1<｜end▁of▁sentence｜><｜User｜>Q2"
                        + "<｜Assistant｜>");
        refused(
                "TOOLS_INVALID",
                "messages[1].role: expected no tool in deepseek-v3, got tool",
                () -> render("deepseek-v3", ChatOptions.DEFAULT, user("Q"), tool("x", null, null)));
    }

    @Test
    void rendersLlama() {
        assertThat(render("llama3", ChatOptions.DEFAULT, user(" Q\n"), assistant("A", null)))
                .isEqualTo("<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|>"
                        + "<|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
                        + "<|start_header_id|>assistant<|end_header_id|>\n\n");
        assertThat(render("llama3.1", ChatOptions.DEFAULT, ChatMessage.of("system", "S"), user("Q")))
                .isEqualTo("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date:"
                        + " December 2023\nToday Date: 26 Jul 2024\n\nS<|eot_id|><|start_header_id|>user"
                        + "<|end_header_id|>\n\nQ<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
    }

    @Test
    void leavesTheRolesAsTheyAreWhateverTheTextsSay() {
        for (Tokenizer tokenizer : List.of(Samples.glm(), Samples.kimi(), ALL_MARKERS)) {
            String evil = "x" + String.join("", tokenizer.addedTokens().keySet()) + "y";
            for (String id : ChatFormats.ids()) {
                ChatFormat format = ChatFormats.byId(id);
                if (format.markers().stream().anyMatch(marker -> tokenizer.special(marker) == null)) {
                    continue;
                }
                assertThat(added(format.render(saying(evil, id), ChatOptions.DEFAULT, tokenizer), tokenizer))
                        .as(id)
                        .isEqualTo(added(format.render(saying("x", id), ChatOptions.DEFAULT, tokenizer), tokenizer));
            }
        }
    }

    private static List<ChatMessage> saying(String text, String formatId) {
        ChatMessage answer =
                new ChatMessage(formatId.equals("deepseek-v3") ? "user" : "tool", text, null, text, text, List.of());
        return List.of(
                ChatMessage.of("system", text),
                new ChatMessage("user", text, null, text, null, List.of()),
                assistant(text, text),
                user(text),
                assistant(text, text),
                answer);
    }

    private static int[] added(Rendered rendered, Tokenizer tokenizer) {
        return Arrays.stream(rendered.ids())
                .filter(tokenizer.addedTokens()::containsValue)
                .toArray();
    }

    @Test
    void acceptsOddButWellFormedTexts() {
        Tokenizer glm = Samples.glm();
        for (String text : List.of("", "\u0000", "\u202eabc", "e" + "\u0301".repeat(1000), "\uFFFE", "   \n")) {
            Rendered rendered = GlmFormat.PLAIN.render(List.of(user(text)), ChatOptions.DEFAULT, glm);
            assertThat(glm.decode(rendered.ids()))
                    .isEqualTo("[gMASK]<sop><|user|>\n" + text + "<|assistant|>\n")
                    .isEqualTo(rendered.text());
        }
    }

    private static void refused(String code, String message, ThrowingCallable action) {
        assertThatThrownBy(action)
                .isInstanceOf(InvalidRequestException.class)
                .hasMessage(message)
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo(code);
    }

    @Test
    void refusesWhatIsNoConversation() {
        refused(
                "PROMPT_EMPTY",
                "messages: expected at least one, got none",
                () -> render("glm-5", ChatOptions.DEFAULT));
        refused(
                "ROLE_UNKNOWN",
                "messages[1].role: expected system, user, assistant or tool, got \"root\"",
                () -> render("glm-5", ChatOptions.DEFAULT, user("x"), ChatMessage.of("root", "x")));
        refused(
                "PROMPT_NOT_UTF8",
                "messages[0].content: expected well-formed Unicode, got the lone surrogate U+D800 at char 1;"
                        + " send whole characters",
                () -> render("glm-5", ChatOptions.DEFAULT, user("x\ud800")));
    }

    @Test
    void refusesToolsThatAreNone() {
        ChatMessage q = user("x");
        refused("TOOLS_INVALID", "tools: expected a JSON array, got object", () -> render("glm-5", tools("{}"), q));
        refused("TOOLS_INVALID", "tools: expected a JSON array, got missing", () -> render("glm-5", tools(""), q));
        refused("TOOLS_INVALID", "tools[1]: expected an object, got number", () -> render("glm-5", tools("[{},1]"), q));
        assertThatThrownBy(() -> render("glm-5", tools("[".repeat(100) + "]".repeat(100)), q))
                .hasMessageStartingWith("tools: expected JSON, nested at most 64 deep, keys once, got Document nesting")
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("TOOLS_INVALID");
        refused(
                "TOOLS_INVALID",
                "tools: expected at most 1048576 characters, got 1048577",
                () -> render("glm-5", tools(" ".repeat(1048577)), q));
        assertThatThrownBy(() -> render("glm-5", tools("[{\"a\":1,\"a\":2}]"), q))
                .hasMessageContaining("keys once, got Duplicate");
        refused(
                "TOOLS_INVALID",
                "chat format \"glm-plain\": expected no tools and no calls," + " as it has no words for them, got some",
                () -> render("glm-plain", tools("[{}]"), q));
        refused(
                "TOOLS_INVALID",
                "tool call \"f\": expected a JSON object as arguments, got array",
                () -> render("glm-5", ChatOptions.DEFAULT, q, assistant("", null, new ToolCall("", "f", "[]"))));
        refused(
                "TOOLS_INVALID",
                "messages[0].tool_calls: expected calls in turns of the assistant only, got user",
                () -> render(
                        "glm-5",
                        ChatOptions.DEFAULT,
                        new ChatMessage("user", "x", null, null, null, List.of(new ToolCall("", "f", "{}")))));
        refused(
                "TOOLS_INVALID",
                "messages[1].tool_call_id: expected the id of an earlier call, got none",
                () -> render("kimi-k2", ChatOptions.DEFAULT, q, tool("x", null, null)));
    }

    @Test
    void refusesAFormatWhoseMarkersTheTokenizerLacks() {
        String message = "chat format \"qwen3\": expected the tokenizer to have the marker \"<|im_start|>\", got none;"
                + " choose another chatFormat or the tokenizer of the same release";
        refused(
                "TPL_TOKEN_MISSING",
                message,
                () -> ChatFormats.byId("qwen3").render(List.of(user("x")), ChatOptions.DEFAULT, Samples.glm()));
        assertThatThrownBy(() -> ChatFormats.detect("qwen3", Samples.files("glm-tiny"), Samples.glm()))
                .isInstanceOf(InvalidModelException.class)
                .hasMessage(message)
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("TPL_TOKEN_MISSING");
    }

    @Test
    void takesTheChosenFormatWhateverTheTemplateSays() {
        TokenizerFiles files = Samples.files("glm-tiny");
        Tokenizer glm = Samples.glm();
        assertThat(ChatFormats.detect(null, files, glm).id()).isEqualTo("glm-plain");
        assertThat(ChatFormats.detect("glm-4.5", files, glm).id()).isEqualTo("glm-4.5");
        assertThat(ChatFormats.detect(null, Samples.files("kimi-tiny"), Samples.kimi())
                        .id())
                .isEqualTo("kimi-plain");
        assertThatThrownBy(() -> ChatFormats.detect("llama9", files, glm))
                .isInstanceOf(InvalidModelException.class)
                .hasMessage("chatFormat: expected one of glm-plain, glm-4.5, glm-4.7, glm-5, kimi-plain, kimi-k2-early,"
                        + " kimi-k2, kimi-k2-thinking, kimi-k2.5, kimi-k2.7, chatml, qwen2, qwen2.5, qwen3, llama3,"
                        + " llama3.1, deepseek-v3, got \"llama9\"")
                .extracting(e -> ((EngineException) e).code())
                .isEqualTo("TPL_UNKNOWN");
    }

    @Test
    void servesTextsButNoConversationsWithoutAKnownTemplate() {
        Tokenizer glm = Samples.glm();
        TokenizerFiles files = name ->
                name.equals("chat_template.jinja") ? "{{ ''.getClass() }}".getBytes(StandardCharsets.UTF_8) : null;
        ChatFormat unknown = ChatFormats.detect(null, files, glm);
        assertThat(unknown.id()).isEqualTo("none");
        refused(
                "TPL_UNKNOWN",
                "messages: expected a model with a known chat format, got an unknown chat template"
                        + " (SHA-256 f4ee54890dcf0278…); set the engine's chatFormat to one of "
                        + String.join(", ", ChatFormats.ids()) + ", or send a text",
                () -> unknown.render(List.of(user("x")), ChatOptions.DEFAULT, glm));
        ChatFormat none = ChatFormats.detect(null, name -> null, glm);
        assertThatThrownBy(() -> none.render(List.of(user("x")), ChatOptions.DEFAULT, glm))
                .hasMessageContaining("got a checkpoint without a chat template;");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "[gMASK]<sop> Reasoning Effort enable_thinking | glm-5",
                "[gMASK]<sop> Reasoning Effort | none",
                "[gMASK]<sop> '/nothink' if | glm-4.5",
                "[gMASK]<sop> {{- '</think>' if (enable_thinking | glm-4.7",
                "[gMASK]<sop> 可用工具 | none",
                "im_middle tools_ts_str You are Kimi | none",
                "<:im_middle:> tools_ts_str You are Kimi | kimi-k2.5",
                "<:im_middle:> tools_ts_str | kimi-k2.7",
                "<:im_middle:> You are Kimi <think> | kimi-k2-thinking",
                "<:im_middle:> tool_declare You are Kimi | kimi-k2",
                "<:im_middle:> tool_declare You are a helpful assistant | kimi-k2-early",
                "<:im_middle:> tool_declare | none",
                "<:im_middle:> | kimi-plain",
                "<:im_start:> tools enable_thinking | qwen3",
                "<:im_start:> You are Qwen, created by Alibaba Cloud tools | qwen2.5",
                "<:im_start:> You are a helpful assistant | qwen2",
                "<:im_start:> | chatml",
                "<:im_start:> tools <think> | none",
                "<:start_header_id:> Cutting Knowledge Date tools | llama3.1",
                "<:start_header_id:> | llama3",
                "<:start_header_id:> tools | none",
                "{{'<｜Assistant｜>'}} | deepseek-v3",
                "{{'<｜Assistant｜><think>'}} | none",
                "[INST] | none"
            })
    void recognisesTemplatesByTheirWords(String template, String id) {
        assertThat(ChatFormats.recognise(template.replace(':', '|')).id()).isEqualTo(id);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{{ ''.getClass().forName('java.lang.Runtime') }}",
                "{{ ____int3rpr3t3r____.config }}",
                "{% for x in range(10**9) %}{{ x }}{% endfor %}",
                "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
                "{{ 'x' * 10**9 }}"
            })
    void executesNothingOfATemplate(String hostile) {
        Tokenizer glm = Samples.glm();
        assertThat(ChatFormats.recognise(hostile).id()).isEqualTo("none");
        // In the middle of a template that is known it changes nothing: the format is code, the template only names it.
        String known = "[gMASK]<sop> '/nothink' if";
        String clean = ChatFormats.recognise(known).render(List.of(user("Hi")), ChatOptions.DEFAULT, glm).text();
        assertThat(ChatFormats.recognise(known + hostile).render(List.of(user("Hi")), ChatOptions.DEFAULT, glm).text())
                .isEqualTo(clean)
                .isEqualTo("[gMASK]<sop><|user|>\nHi<|assistant|>");
    }

    @Test
    void hasADigestPerFormat() {
        assertThat(ChatFormats.ids().stream()
                        .map(id -> ChatFormats.byId(id).digest())
                        .distinct())
                .hasSize(ChatFormats.ids().size())
                .allMatch(digest -> digest.matches("[0-9a-f]{64}"));
    }
}

package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;
import millrace.engine.reply.ReplyReading;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// What each chat format's answers mean, in the forms that models give them, sloppy ones included.
class RepliesTest {
    static final String TOOLS = """
            [{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
               "city":{"type":"string"},"days":{"type":"integer"},"note":{"type":["string","null"]},"zip":{"type":"string"},
               "unit":{"enum":["c","f"]},"tags":{"type":"array","items":{"type":"string"}},"wind":{"type":"boolean"},
               "limit":{"anyOf":[{"type":"number"},{"type":"string"}]}},"required":["city"]}}},
             {"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{"zone":{"type":"string"}}}}},
             {"name":"exec5","parameters":{"properties":{"code":{"type":"string"}},"required":["code"]}}]""";
    private static final List<ChatMessage> HELLO = List.of(ChatMessage.of("user", "Hello"));

    private static Reply read(String format, @Nullable Boolean thinking, String text) {
        return read(format, HELLO, new ChatOptions(TOOLS, thinking, null, true), text);
    }

    private static Reply read(String format, List<ChatMessage> history, ChatOptions options, String text) {
        return ReplyReading.of(() -> ChatFormats.byId(format).replies(history, options), text);
    }

    private static Reply says(String content, @Nullable String reasoning, ToolCall... calls) {
        return new Reply(content, reasoning, List.of(calls));
    }

    private static ToolCall call(String id, String name, String arguments) {
        return new ToolCall(id, name, arguments);
    }

    private static String glm(String name, String... pairs) {
        StringBuilder call = new StringBuilder("<tool_call>" + name);
        for (int i = 0; i < pairs.length; i += 2) {
            call.append("<arg_key>%s</arg_key><arg_value>%s</arg_value>".formatted(pairs[i], pairs[i + 1]));
        }
        return call + "</tool_call>";
    }

    private static String kimi(String id, String arguments) {
        return "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>" + arguments + "<|tool_call_end|>";
    }

    @ParameterizedTest
    @ValueSource(strings = {"chatml", "qwen2", "llama3", "llama3.1", "deepseek-v3", "glm-plain", "kimi-plain"})
    void formatsWithoutMarkupSayContentOnly(String format) {
        String text = " <think>x</think> <tool_call>{\"name\":\"get_time\"}</tool_call>\n";
        assertThat(read(format, null, text)).isEqualTo(says(text, null));
        assertThat(read(format, null, "")).isEqualTo(says("", null));
    }

    @Test
    void glmBeginsWhereItsPromptLeftOff() {
        assertThat(read("glm-4.5", null, "\n<think>Let me see.\n</think>\nHello 😀")).isEqualTo(says("Hello 😀", "Let me see."));
        assertThat(read("glm-4.5", false, "\nHello ")).isEqualTo(says("Hello ", null));
        for (String format : new String[] {"glm-4.7", "glm-5"}) {
            assertThat(read(format, null, "Let me see.</think>Hello")).isEqualTo(says("Hello", "Let me see."));
            assertThat(read(format, null, "<think>Again</think>Hello")).isEqualTo(says("Hello", "Again"));
            assertThat(read(format, null, "never closed\n")).isEqualTo(says("", "never closed\n"));
            assertThat(read(format, false, "Hello")).isEqualTo(says("Hello", null));
            assertThat(read(format, false, "<think></think>Hello")).isEqualTo(says("Hello", null));
            assertThat(read(format, false, "</think>Hello")).isEqualTo(says("Hello", null));
        }
    }

    @Test
    void markupNeverLeaksAndSeparatesTexts() {
        assertThat(read("glm-4.7", false, "a </think> b<think>c</think>d")).isEqualTo(says("a\nb\nd", "c"));
        assertThat(read("glm-4.7", null, "a<think>b</think>")).isEqualTo(says("", "a\nb"));
        assertThat(read("glm-4.7", false, "x < y <b>bold</b> <thin <tool")).isEqualTo(says("x < y <b>bold</b> <thin <tool", null));
        assertThat(read("glm-4.7", false, "a</tool_call>b</arg_value><arg_key>")).isEqualTo(says("a\nb", null));
        assertThat(read("kimi-k2", null, "a<|tool_call_end|> b<|tool_calls_section_end|>")).isEqualTo(says("a\nb", null));
    }

    @Test
    void whatMayBeMarkupIsHeldBack() {
        ReplyReader reader = ChatFormats.byId("glm-4.7").replies(HELLO, ChatOptions.DEFAULT);
        assertThat(reader.feed("I think \n")).containsExactly(new ReplyPart.Reasoning("I think"));
        assertThat(reader.feed("so </thi")).containsExactly(new ReplyPart.Reasoning(" \nso"));
        assertThat(reader.feed("nk>\n\nYes")).containsExactly(new ReplyPart.Content("Yes"));
        assertThat(reader.feed(" <")).isEmpty();
        assertThat(reader.feed("3")).containsExactly(new ReplyPart.Content(" <3"));
        assertThat(reader.end()).isEmpty();
    }

    @Test
    void glmCallsAreTypedBySchema() {
        String text = "ok</think>Looking.\n"
                + glm("get_weather", "city", "Paris", "days", "3", "zip", "01234", "unit", "c", "tags", "[\"a\", \"b\"]", "wind",
                        "True", "limit", "2.50", "note", "null", "other", "{\"x\": 1e5}", "free", "as it is");
        assertThat(read("glm-4.7", null, text)).isEqualTo(says("Looking.", "ok", call("call_0", "get_weather",
                "{\"city\":\"Paris\",\"days\":3,\"zip\":\"01234\",\"unit\":\"c\",\"tags\":[\"a\", \"b\"],\"wind\":true,"
                        + "\"limit\":2.50,\"note\":null,\"other\":{\"x\": 1e5},\"free\":\"as it is\"}")));
    }

    @Test
    void glmTakesBothLayoutsAndAnyValue() {
        String lines = "\n<think></think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
                + "<arg_key> days </arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>get_time\n</tool_call>";
        assertThat(read("glm-4.5", null, lines)).isEqualTo(says("", null,
                call("call_0", "get_weather", "{\"city\":\"Paris\",\"days\":3}"), call("call_1", "get_time", "{}")));
        String code = "if (a < b) {\n  print(\"</tool_call> <arg_key>\");\n}<arg_value>\\";
        assertThat(read("glm-4.5", false, glm("exec5", "code", code)).toolCalls()).containsExactly(call("call_0", "exec5",
                "{\"code\":\"if (a < b) {\\n  print(\\\"</tool_call> <arg_key>\\\");\\n}<arg_value>\\\\\"}"));
        // A tool that was not declared is for the caller to deny.
        assertThat(read("glm-4.5", false, glm("get_moon", "n", "1")).toolCalls())
                .containsExactly(call("call_0", "get_moon", "{\"n\":1}"));
        // The next call says that the one before has ended.
        assertThat(read("glm-4.5", false, "<tool_call>get_time" + glm("get_time")).toolCalls()).hasSize(2);
    }

    @Test
    void glmCallsThatCannotBeReadAreContent() {
        assertThat(read("glm-4.7", false, "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Par"))
                .isEqualTo(says("get_weather\ncity\nPar", null));
        assertThat(read("glm-4.7", false, "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"))
                .isEqualTo(says("get_weather\ncity\nParis", null));
        assertThat(read("glm-4.7", false, "<tool_call>get_weather<arg_key>city</arg_key></tool_call>"))
                .isEqualTo(says("get_weather\ncity", null));
        assertThat(read("glm-4.7", false, glm("get_weather", "city", "A", "city", "B")))
                .isEqualTo(says("get_weather\ncity\nA\ncity\nB", null));
        assertThat(read("glm-4.7", false, glm("two words"))).isEqualTo(says("two words", null));
        assertThat(read("glm-4.7", false, glm(""))).isEqualTo(says("", null));
    }

    @Test
    void aCallSpelledOutInReasoningIsAThought() {
        String thought = "I might " + glm("get_time") + " here";
        assertThat(read("glm-4.7", null, thought + "</think>No.")).isEqualTo(says("No.", thought));
        assertThat(read("glm-4.7", null, thought)).isEqualTo(says("", thought));
    }

    @Test
    void withoutToolsNothingIsACall() {
        var none = new ChatOptions(null, null, null, true);
        assertThat(read("glm-4.7", HELLO, none, "</think>" + glm("get_time", "zone", "UTC")))
                .isEqualTo(says("get_time\nzone\nUTC", null));
        assertThat(read("kimi-k2", HELLO, none, kimi("functions.get_time:0", "{}")))
                .isEqualTo(says("functions.get_time:0\n{}", null));
        assertThat(read("qwen3", HELLO, none, "<tool_call>{\"name\":\"get_time\"}</tool_call>"))
                .isEqualTo(says("{\"name\":\"get_time\"}", null));
    }

    @Test
    void kimiThinksWhereItsFormatDoes() {
        assertThat(read("kimi-k2", null, "<think>x</think>y")).isEqualTo(says("<think>x</think>y", null));
        assertThat(read("kimi-k2-thinking", null, "<think>x</think>y")).isEqualTo(says("y", "x"));
        assertThat(read("kimi-k2-thinking", null, "y")).isEqualTo(says("y", null));
        assertThat(read("kimi-k2.5", null, "x</think>y")).isEqualTo(says("y", "x"));
        assertThat(read("kimi-k2.5", false, "y")).isEqualTo(says("y", null));
        assertThat(read("kimi-k2.7", null, "x</think>y")).isEqualTo(says("y", "x"));
    }

    @Test
    void kimiCallsComeInSectionsOfEitherSpelling() {
        String first = kimi(" functions.get_weather:0 ", " {\"city\": \"Paris\"} ");
        String second = kimi("functions.get_time:1", "{}");
        Reply expected = says("Looking.", null, call("functions.get_weather:0", "get_weather", "{\"city\": \"Paris\"}"),
                call("functions.get_time:1", "get_time", "{}"));
        for (String section : new String[] {"calls", "call"}) {
            String begin = "<|tool_" + section + "_section_begin|>";
            String end = "<|tool_" + section + "_section_end|>";
            assertThat(read("kimi-k2", null, "Looking." + begin + first + "\n" + second + end)).isEqualTo(expected);
            assertThat(read("kimi-k2", null, "Looking.\n" + begin + first + second)).isEqualTo(expected);
        }
        assertThat(read("kimi-k2", null, "Looking." + first + second)).isEqualTo(expected);
        // Ends are missing, the objects are whole.
        String open = (first + second).replace("<|tool_call_end|>", "");
        assertThat(read("kimi-k2", null, "Looking.<|tool_calls_section_begin|>" + open)).isEqualTo(expected);
    }

    @Test
    void kimiCallsEndTheReasoningThatTheyBeginIn() {
        String section = "<|tool_calls_section_begin|>" + kimi("functions.get_time:0", "{}") + "<|tool_calls_section_end|>";
        ToolCall call = call("functions.get_time:0", "get_time", "{}");
        assertThat(read("kimi-k2.5", null, "I need the time. " + section)).isEqualTo(says("", "I need the time.", call));
        assertThat(read("kimi-k2-thinking", null, "<think>Hm" + section + "</think>Done")).isEqualTo(says("Done", "Hm", call));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "functions.get_weather:0", "get_weather:0", "functions_get_weather_0", "functionsget_weather0", "get_weather", "get_weather_7",
        "functions.get_weather", "functions:get_weather:0", "call00003", "0", "17", "", "call_0", "tool_call"
    })
    void kimiIdsAreGivenInTheFormThatTheModelExpects(String id) {
        String arguments = "{\"city\":\"Paris\",\"days\":2}";
        Reply reply = read("kimi-k2", null, kimi(id, arguments));
        if (id.equals("tool_call")) {
            assertThat(reply).isEqualTo(says("tool_call\n" + arguments, null));
        } else {
            assertThat(reply).isEqualTo(says("", null, call("functions.get_weather:0", "get_weather", arguments)));
        }
    }

    @Test
    void kimiIdsOfToolsWhoseNamesEndInDigits() {
        assertThat(read("kimi-k2", null, kimi("functionsexec5", "{\"code\":\"1\"}")).toolCalls())
                .containsExactly(call("functions.exec5:0", "exec5", "{\"code\":\"1\"}"));
        assertThat(read("kimi-k2", null, kimi("functionsexec512", "{\"code\":\"1\"}")).toolCalls())
                .containsExactly(call("functions.exec5:0", "exec5", "{\"code\":\"1\"}"));
        // Which tool was meant is guessed by its arguments only where one alone takes them.
        assertThat(read("kimi-k2", null, kimi("3", "{\"code\":\"1\"}")).toolCalls())
                .containsExactly(call("functions.exec5:0", "exec5", "{\"code\":\"1\"}"));
        assertThat(read("kimi-k2", null, kimi("3", "{\"what\":1}"))).isEqualTo(says("3\n{\"what\":1}", null));
    }

    @Test
    void idsCountTheCallsOfTheWholeConversation() {
        List<ChatMessage> history = List.of(
                ChatMessage.of("user", "Hi"),
                new ChatMessage("assistant", "", null, null, null, List.of(
                        call("functions.get_time:0", "get_time", "{}"), call("call_1", "get_time", "{}"))),
                new ChatMessage("tool", "12:00", null, null, "functions.get_time:0", List.of()));
        var options = new ChatOptions(TOOLS, false, null, true);
        String calls = kimi("functions.get_time:0", "{}") + kimi("functions.get_time:9", "{}") + kimi("get_time:0", "{}");
        assertThat(read("kimi-k2", history, options, calls).toolCalls()).extracting(ToolCall::id)
                .containsExactly("functions.get_time:2", "functions.get_time:9", "functions.get_time:4");
        assertThat(read("glm-4.5", history, options, glm("get_time") + glm("get_time")).toolCalls()).extracting(ToolCall::id)
                .containsExactly("call_2", "call_3");
    }

    @Test
    void kimiCallsThatCannotBeReadAreContent() {
        for (String arguments : new String[] {"{\"city\":", "[1]", "3", "{\"a\":1,\"a\":2}", "{\"a\":1} x", "{a:1}"}) {
            assertThat(read("kimi-k2", null, "Hm. " + kimi("functions.get_weather:0", arguments)))
                    .isEqualTo(says("Hm.\nfunctions.get_weather:0\n" + arguments, null));
        }
        assertThat(read("kimi-k2", null, "<|tool_call_begin|>functions.get_time:0")).isEqualTo(says("functions.get_time:0", null));
        assertThat(read("kimi-k2", null, "<|tool_call_begin|>functions.get_time:0{}").toolCalls()).hasSize(1);
        assertThat(read("kimi-k2", null, kimi("functions.get_time:0", "")).toolCalls())
                .containsExactly(call("functions.get_time:0", "get_time", "{}"));
    }

    @Test
    void qwenCallsAreObjects() {
        String text = "<think>\nHm.\n</think>\n\nLooking.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"</tool_call>\","
                + " \"days\": 1E+2}}\n</tool_call>\n<tool_call>{\"name\":\"get_time\",\"parameters\":\"{\\\"zone\\\":\\\"UTC\\\"}\"}";
        assertThat(read("qwen3", null, text)).isEqualTo(says("Looking.", "Hm.",
                call("call_0", "get_weather", "{\"city\": \"</tool_call>\", \"days\": 1E+2}"),
                call("call_1", "get_time", "{\"zone\":\"UTC\"}")));
        assertThat(read("qwen2.5", null, "<tool_call>{\"name\":\"get_time\"}</tool_call>").toolCalls())
                .containsExactly(call("call_0", "get_time", "{}"));
        for (String body : new String[] {
            "{\"name\": \"get_time\", \"arguments\": {", "{\"name\": \"get_time\", \"arguments\": [1]}", "{\"arguments\": {}}",
            "{\"name\": 3}", "get_time", "{\"name\":\"a\"}{\"name\":\"b\"}", "{\"name\":\"get_time\",\"arguments\":\"x\"}"
        }) {
            assertThat(read("qwen2.5", null, "<tool_call>" + body + "</tool_call>")).isEqualTo(says(body, null));
        }
    }

    /// What a format writes into its history is what its reader takes out of it.
    @ParameterizedTest
    @ValueSource(strings = {"glm-4.5", "glm-4.7", "glm-5", "kimi-k2", "kimi-k2-thinking", "kimi-k2.5", "qwen2.5", "qwen3"})
    void readsWhatTheFormatWrites(String id) {
        ChatFormat format = ChatFormats.byId(id);
        Tokenizer tokenizer = Samples.withMarkers(format.markers());
        boolean thinks = !id.equals("kimi-k2") && !id.equals("qwen2.5");
        var turn = new ChatMessage("assistant", "Looking.", thinks ? "Which city?" : null, null, null, List.of(
                call("functions.get_weather:0", "get_weather", "{\"city\": \"0123\", \"days\": 3, \"tags\": [\"a\"]}")));
        var options = new ChatOptions(TOOLS, null, null, true);
        String prompt = format.render(HELLO, options, tokenizer).text();
        String withTurn = format.render(List.of(HELLO.getFirst(), turn), new ChatOptions(TOOLS, null, null, false), tokenizer)
                .text();
        assertThat(withTurn).startsWith(prompt);
        String text = withTurn.substring(prompt.length()).replaceAll("<\\|im_end\\|>\\n?$", "");
        Reply reply = ReplyReading.of(() -> format.replies(HELLO, options), text);
        assertThat(reply.content()).isEqualTo("Looking.");
        assertThat(reply.reasoning()).isEqualTo(turn.reasoningContent());
        assertThat(reply.toolCalls()).hasSize(1);
        assertThat(Conversation.arguments(reply.toolCalls().getFirst())).isEqualTo(Conversation.arguments(turn.toolCalls().getFirst()));
    }

    static Map<String, List<String>> markup() {
        List<String> think = List.of("<think>", "</think>");
        List<String> glm = new ArrayList<>(think);
        glm.addAll(List.of("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"));
        List<String> kimi = new ArrayList<>(think);
        kimi.addAll(List.of("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_section_begin|>",
                "<|tool_call_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"));
        return Map.of("glm-4.5", glm, "glm-5", glm, "kimi-k2-thinking", kimi, "kimi-k2.5", kimi,
                "qwen3", List.of("<think>", "</think>", "<tool_call>", "</tool_call>"));
    }
}

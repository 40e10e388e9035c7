package millrace.engine.guide;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.InvalidRequestException;
import millrace.engine.Reply;
import millrace.engine.ReplyReader;
import millrace.engine.ResponseFormat;
import millrace.engine.ToolCall;
import millrace.engine.reply.CallSyntax;
import millrace.engine.reply.MarkupReader;
import millrace.engine.tokenizer.Reasoning;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Walks through calls of random tools by tokens that are allowed, and reads them as every reply is read: whatever is chosen, there are calls of
/// declared tools, with arguments that their schemas accept, and nothing else. More with `-Dmillrace.guide.schemas=100000`.
class CallsWalkTest {
    private static final int ROUNDS = Integer.getInteger("millrace.guide.schemas", 250) / 4;
    private static final Map<String, CallSyntax> SYNTAXES = Map.of("kimi", CallSyntax.kimi(true), "kimi without reasoning", CallSyntax.kimi(false),
            "glm", CallSyntax.glm(""), "glm with lines", CallSyntax.glm("\n"), "json", CallSyntax.json(true));

    private final TestVocabulary vocabulary = TestVocabulary.standard();

    private GuideEngine engine(CallSyntax syntax) {
        return new GuideEngine(vocabulary, vocabulary.vocabSize() + 5, vocabulary.stops(), syntax);
    }

    private static ArrayNode randomTools(SplittableRandom random) {
        ArrayNode tools = GuideWalkTest.JSON.createArrayNode();
        String[] names = {"get", "get_more", "a.b/c-1"};
        for (int i = 0; i <= random.nextInt(3); i++) {
            ObjectNode function = tools.addObject().put("type", "function").putObject("function").put("name", names[i]);
            if (random.nextInt(6) == 0) {
                continue;
            }
            ObjectNode parameters = function.putObject("parameters").put("type", "object");
            ObjectNode properties = parameters.putObject("properties");
            ArrayNode required = parameters.putArray("required");
            for (int p = 0; p < random.nextInt(4); p++) {
                String name = List.of("x", "xy", "city name", "ä").get(p);
                ObjectNode schema = (ObjectNode) (random.nextInt(3) == 0 ? plain(random) : new RandomSchemas(random).next());
                JsonNode definitions = schema.remove("$defs");
                if (definitions != null) {
                    parameters.set("$defs", definitions);
                }
                properties.set(name, schema);
                if (random.nextBoolean()) {
                    required.add(name);
                }
            }
        }
        return tools;
    }

    /// What tools of users have most.
    private static JsonNode plain(SplittableRandom random) {
        String[] all = {
            "{\"type\":\"string\"}", "{\"type\":\"string\",\"minLength\":1,\"maxLength\":3}", "{\"type\":\"string\",\"minLength\":14}",
            "{\"enum\":[\"red\",\"green\",\"\"]}", "{\"type\":[\"string\",\"null\"]}", "{\"anyOf\":[{\"type\":\"string\",\"maxLength\":12},{\"type\":\"null\"}]}",
            "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":40}", "{}",
            "{\"type\":[\"string\",\"null\"],\"enum\":[\"null\",\"ab\",null]}", "{\"type\":\"boolean\"}"};
        try {
            return GuideWalkTest.JSON.readTree(all[random.nextInt(all.length)]);
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"kimi", "kimi without reasoning", "glm", "glm with lines", "json"})
    void areReadAsCallsOfDeclaredToolsWhateverIsChosen(String name) throws Exception {
        CallSyntax syntax = SYNTAXES.get(name);
        GuideEngine engine = engine(syntax);
        int walked = 0;
        for (int seed = 0; seed < ROUNDS; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            ArrayNode tools = randomTools(random);
            boolean required = random.nextInt(4) > 0;
            String only = required && random.nextInt(3) == 0 ? tools.get(0).path("function").path("name").asText() : null;
            Guide guide;
            try {
                guide = engine.guide(new ResponseFormat.Calls(tools.toString(), only, required));
            } catch (InvalidRequestException e) {
                assertThat(e.code()).as("%s %s", seed, tools).isIn("GUIDE_UNSUPPORTED", "GUIDE_UNSATISFIABLE");
                assertThat(e.getMessage()).startsWith("tools: parameters of ");
                continue;
            }
            Map<String, SchemaJudge> judges = new HashMap<>();
            for (JsonNode tool : tools) {
                JsonNode parameters = tool.path("function").path("parameters");
                judges.put(tool.path("function").path("name").asText(), parameters.isMissingNode() ? null : new SchemaJudge(parameters));
            }
            for (int i = 0; i < 3; i++) {
                Reasoning reasoning = syntax.thinks() ? Reasoning.values()[random.nextInt(3)] : Reasoning.NONE;
                String text = walk(engine, guide, reasoning, random, i == 0 && seed % 5 == 0, "seed " + seed + " " + tools);
                Reply reply = read(syntax, reasoning, tools.toString(), text, random);
                String what = "seed %s: %s of %s: %s".formatted(seed, text, tools, reply);
                if (required) {
                    assertThat(reply.content()).as(what).isEmpty();
                    assertThat(reply.toolCalls()).as(what).isNotEmpty();
                }
                for (ToolCall call : reply.toolCalls()) {
                    assertThat(judges).as(what).containsKey(call.name());
                    JsonNode arguments = GuideWalkTest.JSON.readTree(call.arguments());
                    SchemaJudge judge = judges.get(call.name());
                    assertThat(judge == null ? arguments.isEmpty() : judge.accepts(arguments)).as(what).isTrue();
                }
                if (only != null) {
                    assertThat(reply.toolCalls()).as(what).extracting(ToolCall::name).containsExactly(only);
                }
                assertThat(reply.toolCalls()).as(what).extracting(ToolCall::id).doesNotHaveDuplicates();
                walked++;
            }
        }
        assertThat(walked).as(name).isGreaterThan(ROUNDS);
    }

    private static Reply read(CallSyntax syntax, Reasoning reasoning, String tools, String text, SplittableRandom random) {
        ReplyReader reader = ((MarkupReader) MarkupReader.of(syntax.thinks(), reasoning == Reasoning.OPEN, syntax.form(), List.of(), tools)).held();
        int at = 0;
        while (at < text.length()) {
            int next = Math.min(text.length(), at + 1 + random.nextInt(20));
            reader.feed(text.substring(at, next));
            at = next;
        }
        reader.end();
        return reader.reply();
    }

    /// @param compare whether every mask is compared with a try of every token
    private String walk(GuideEngine engine, Guide guide, Reasoning reasoning, SplittableRandom random, boolean compare, String what)
            throws Exception {
        GuideRun run = engine.start(guide, reasoning);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        List<Integer> ids = new ArrayList<>();
        while (!run.closed()) {
            List<Integer> allowed = GuideWalkTest.allowed(run);
            assertThat(allowed).as("%s: dead end after %s", what, bytes).isNotEmpty();
            if (compare && ids.size() < 40) {
                assertThat(allowed).as("%s: after %s", what, bytes).isEqualTo(tried(engine, guide, reasoning, ids));
            }
            int id = choose(allowed, random, ids.size());
            if (id == vocabulary.id(TestVocabulary.END)) {
                assertThat(run.complete()).isTrue();
                break;
            }
            assertThat(run.advance(id)).as("%s: after %s token %s", what, bytes, id).isTrue();
            ids.add(id);
            bytes.writeBytes(vocabulary.token(id));
            assertThat(ids.size()).as("%s: goes on for ever: %s", what, bytes).isLessThan(5_000);
        }
        assertThat(run.complete()).isTrue();
        // Free text and reasoning may be any bytes, as unguided text may.
        return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
    }

    private List<Integer> tried(GuideEngine engine, Guide guide, Reasoning reasoning, List<Integer> ids) {
        List<Integer> allowed = new ArrayList<>();
        for (int id = 0; id < vocabulary.vocabSize(); id++) {
            GuideRun run = engine.start(guide, reasoning);
            ids.forEach(run::advance);
            boolean end = vocabulary.stops().contains(id) && run.complete();
            if (end || !run.closed() && run.advance(id)) {
                allowed.add(id);
            }
        }
        return allowed;
    }

    private int choose(List<Integer> allowed, SplittableRandom random, int length) {
        List<Integer> markers = allowed.stream().filter(id -> vocabulary.addedTokens().containsValue(id)).toList();
        if (!markers.isEmpty() && random.nextInt(5) < 2) {
            return markers.get(random.nextInt(markers.size()));
        }
        if (random.nextInt(200) < length) {
            List<Integer> ending = allowed.stream().filter(id -> {
                byte last = vocabulary.token(id)[0];
                return last == '"' || last == '}' || last == ']' || id == vocabulary.id(TestVocabulary.END);
            }).toList();
            if (!ending.isEmpty()) {
                return ending.get(random.nextInt(ending.size()));
            }
        }
        return allowed.get(random.nextInt(allowed.size()));
    }

    private static boolean takes(GuideEngine engine, CallSyntax syntax, TestVocabulary vocabulary, ResponseFormat.Calls calls, String text) {
        GuideRun run = engine.start(engine.guide(calls), Reasoning.NONE);
        for (int id : vocabulary.split(text, new SplittableRandom(3))) {
            if (run.closed() || !run.advance(id)) {
                return false;
            }
        }
        return run.complete();
    }

    @Test
    void takesWhatTheFormatsWrite() {
        String tools = "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\",\"properties\":"
                + "{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}},\"required\":[\"city\"]}}}]";
        var calls = new ResponseFormat.Calls(tools, null, true);
        CallSyntax glm = CallSyntax.glm("\n");
        assertThat(takes(engine(glm), glm, vocabulary, calls, "\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>São </arg_ \"x\"</arg_value>\n"
                + "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>weather\n<arg_key>city</arg_key>\n"
                + "<arg_value></arg_value>\n</tool_call>")).isTrue();
        assertThat(takes(engine(glm), glm, vocabulary, calls, "<tool_call>weather\n</tool_call>")).as("city is required").isFalse();
        CallSyntax kimi = CallSyntax.kimi(true);
        assertThat(takes(engine(kimi), kimi, vocabulary, calls, "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
                + "<|tool_call_argument_begin|>{\"city\": \"<|tool_call_end|>\"}<|tool_call_end|><|tool_call_begin|>functions.weather:1"
                + "<|tool_call_argument_begin|>{\"city\":\"\",\"days\":3}<|tool_call_end|><|tool_calls_section_end|>")).isTrue();
        assertThat(takes(engine(kimi), kimi, vocabulary, calls, "<|tool_calls_section_begin|><|tool_calls_section_end|>")).isFalse();
        CallSyntax json = CallSyntax.json(true);
        assertThat(takes(engine(json), json, vocabulary, calls, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>")).isTrue();
        assertThat(takes(engine(json), json, vocabulary, calls, "Rome")).as("a call is required").isFalse();
        assertThat(takes(engine(json), json, vocabulary, new ResponseFormat.Calls(tools, null, false), "Rome")).isTrue();
        assertThat(takes(engine(json), json, vocabulary, new ResponseFormat.Calls(tools, "weather", true),
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"\"}}\n</tool_call>\n<tool_call>\n")).as("once").isFalse();
    }

    /// Where an answer is free, what cannot be read as a declared call must not be written as one.
    @Test
    void aFreeTextEndsWhereACallBegins() {
        String tools = "[{\"name\":\"weather\",\"strict\":true}]";
        var calls = new ResponseFormat.Calls(tools, null, false);
        CallSyntax kimi = CallSyntax.kimi(true);
        assertThat(takes(engine(kimi), kimi, vocabulary, calls, "See <|tool_ca <<|tool_call_")).isTrue();
        assertThat(takes(engine(kimi), kimi, vocabulary, calls, "See <|tool_call_begin|>")).isFalse();
        assertThat(takes(engine(kimi), kimi, vocabulary, calls, "<think><|tool_call_begin|></think>See")).isTrue();
        CallSyntax glm = CallSyntax.glm("");
        assertThat(takes(engine(glm), glm, vocabulary, calls, "See <<tool_call>weather</tool_call>")).isTrue();
        assertThat(takes(engine(glm), glm, vocabulary, calls, "See <tool_call>other")).isFalse();
    }

    @Test
    void refusesByNameWhatCannotBeHeldTo() {
        GuideEngine glm = engine(CallSyntax.glm(""));
        refused(glm, "[{\"name\":\"w\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"type\":[\"string\",\"integer\"]}}}}]", "GUIDE_UNSUPPORTED",
                "tools: parameters of w at #/properties/x: expected words that a completion can be held to, got \"string\" beside [integer] as \"type\"");
        refused(glm, "[{\"name\":\"w\",\"parameters\":{\"type\":\"string\"}}]", "GUIDE_SCHEMA", "tools: parameters of w at #: expected one object");
        refused(glm, "[{\"name\":\"w\",\"parameters\":{\"type\":\"object\",\"not\":{}}}]", "GUIDE_UNSUPPORTED", "tools: parameters of w at #");
        refused(glm, "[{\"name\":\"a b\"}]", "TOOLS_INVALID", "tools: expected names of 1 to 128 characters of A-Z a-z 0-9 _ . / -");
        refused(glm, "[]", "TOOL_CHOICE", "tool_choice: expected one of the declared tools, got none at all");
        assertThatThrownBy(() -> glm.guide(new ResponseFormat.Calls("[{\"name\":\"w\"}]", "v", true)))
                .hasMessageStartingWith("tool_choice: expected one of the declared tools, got \"v\"");
        refused(engine(null), "[{\"name\":\"w\"}]", "TOOL_CHOICE", "tool_choice: expected a model whose chat format has calls of tools");
    }

    private static void refused(GuideEngine engine, String tools, String code, String message) {
        assertThatThrownBy(() -> engine.guide(new ResponseFormat.Calls(tools, null, true)))
                .isInstanceOfSatisfying(InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo(code))
                .hasMessageStartingWith(message);
    }
}

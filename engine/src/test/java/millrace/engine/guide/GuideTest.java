package millrace.engine.guide;

import static millrace.engine.guide.GuideWalkTest.allowed;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.engine.InvalidRequestException;
import millrace.engine.ResponseFormat;
import millrace.engine.tokenizer.Reasoning;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class GuideTest {
    private final TestVocabulary vocabulary = TestVocabulary.standard();
    private final GuideEngine engine = engine(vocabulary);

    private static GuideEngine engine(TestVocabulary vocabulary) {
        return new GuideEngine(vocabulary, vocabulary.vocabSize(), vocabulary.stops(), null);
    }

    private GuideRun run(String schema) {
        return run(schema, Reasoning.NONE);
    }

    private GuideRun run(String schema, Reasoning reasoning) {
        return engine.start(engine.guide(new ResponseFormat.JsonSchema(schema)), reasoning);
    }

    /// How far a text leads, byte by byte; each mask on the way must say so too.
    private boolean leads(GuideRun run, String text) {
        for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
            boolean allowed = allowed(run).contains(b & 0xFF);
            assertThat(run.advance(b & 0xFF)).isEqualTo(allowed);
            if (!allowed) {
                return false;
            }
        }
        return true;
    }

    private boolean accepts(String schema, String text) {
        GuideRun run = run(schema);
        return leads(run, text) && run.complete();
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "{}", "{ }", "{\n}", "{\"a\":1}", "{\"a\": 1, \"b\": [true, false, null, \"x\", 1.5e-7, {}]}",
        "\n\n{\n    \"a\": -0.25,\n    \"é\": \"\\u00e9\\ud83d\\ude00 €😀\\n\\/\"\n}", "{\"a\":{\"a\":{\"a\":[]}}}", "{\"\":0}"
    })
    void takesAnyObject(String text) {
        GuideRun run = engine.start(engine.guide(new ResponseFormat.JsonObject()), Reasoning.NONE);
        assertThat(leads(run, text)).isTrue();
        assertThat(run.closed()).isTrue();
        assertThat(allowed(run)).containsExactly(vocabulary.id(TestVocabulary.END));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "[", "\"", "1", "{a", "{\"a\" 1", "{\"a\":1,}", "{\"a\":01", "{\"a\":1.}", "{\"a\":.5", "{\"a\":+1", "{\"a\":1e}", "{\"a\":tru}",
        "{\"a\":\"\t", "{\"a\":\"\\x", "{\"a\":\"\\ud800\"", "{\"a\":\"\\udc00", "{\"a\":[1,]", "{\"a\":1,\"a\"", "{\"a\":1,\"b\":2,\"a\"",
        "{\"a\":1}}", "{\"a\":1}\n", "   {", "\n {", "{\"a\":  1", "{\n\n\n", "{\"a\":1 2", "\uFEFF", "{\"a\":NaN", "{\"a\":1234567890123456789"
    })
    void takesNothingElse(String text) {
        assertThat(leads(engine.start(engine.guide(new ResponseFormat.JsonObject()), Reasoning.NONE), text)).isFalse();
    }

    @Test
    void takesNoBytesThatAreNotUtf8() {
        int[][] wrong = {{0x80}, {0xC0}, {0xC1}, {0xE0, 0x80}, {0xED, 0xA0}, {0xF0, 0x8F}, {0xF4, 0x90}, {0xF5}, {0xFF}, {0xC3, '"'}, {'\n'}};
        for (int[] bytes : wrong) {
            GuideRun run = run("{\"type\":\"string\"}");
            run.advance('"');
            for (int i = 0; i < bytes.length; i++) {
                boolean last = i == bytes.length - 1;
                assertThat(allowed(run).contains(bytes[i])).isEqualTo(!last);
                assertThat(run.advance(bytes[i])).isEqualTo(!last);
            }
        }
    }

    @Test
    void aCharacterMayBeSplitOverTokens() {
        GuideRun run = run("{\"type\":\"string\",\"maxLength\":1}");
        byte[] smile = "😀".getBytes(StandardCharsets.UTF_8);
        int first = IntStream.range(256, vocabulary.vocabSize()).filter(id -> starts(id, smile, 0)).findFirst().orElseThrow();
        int second = IntStream.range(256, vocabulary.vocabSize()).filter(id -> starts(id, smile, 2)).findFirst().orElseThrow();
        assertThat(run.advance('"')).isTrue();
        assertThat(allowed(run)).contains(first);
        assertThat(run.advance(first)).isTrue();
        assertThat(allowed(run)).contains(second).doesNotContain((int) '"', (int) 'a');
        assertThat(run.advance(second)).isTrue();
        assertThat(allowed(run)).containsExactly((int) '"');
    }

    private boolean starts(int id, byte[] of, int from) {
        byte[] token = vocabulary.token(id);
        return token.length == 2 && token[0] == of[from] && token[1] == of[from + 1];
    }

    @Test
    void addedTokensAreNoText() {
        GuideRun run = engine.start(engine.guide(new ResponseFormat.JsonObject()), Reasoning.NONE);
        assertThat(leads(run, "{\"a\":\"")).isTrue();
        assertThat(allowed(run)).doesNotContain(
                vocabulary.id("<tool_call>"), vocabulary.id("<think>"), vocabulary.id("</think>"), vocabulary.id(TestVocabulary.END));
        assertThat(run.advance(vocabulary.id("<tool_call>"))).isFalse();
        assertThat(run.complete()).isFalse();
        assertThat(allowed(run)).isEmpty();
        run.restart();
        assertThat(leads(run, "{\"a\":\"<tool_call></think>\"}")).isTrue();
    }

    @Test
    void aDocumentBeginsBehindTheReasoning() {
        GuideRun run = run("{\"type\":\"boolean\"}", Reasoning.OPEN);
        assertThat(leads(run, "So {\"a\" … \u0001 </thin </think")).isTrue();
        assertThat(allowed(run)).doesNotContain(vocabulary.id(TestVocabulary.END), vocabulary.id("<tool_call>"))
                .contains((int) '>', (int) 'x', vocabulary.id("</think>"));
        assertThat(run.advance(vocabulary.id("</think>"))).isTrue();
        assertThat(allowed(run)).doesNotContain((int) '{', vocabulary.id("</think>")).contains((int) 't', (int) '\n');
        assertThat(leads(run, "\n\ntrue")).isTrue();
        assertThat(run.closed()).isTrue();

        GuideRun object = engine.start(engine.guide(new ResponseFormat.JsonObject()), Reasoning.OPEN);
        int over = IntStream.range(256, vocabulary.vocabSize())
                .filter(id -> new String(vocabulary.token(id), StandardCharsets.UTF_8).equals("</think>{\"")).findFirst().orElseThrow();
        assertThat(allowed(object)).contains(over);
        assertThat(object.advance(over)).isTrue();
        assertThat(leads(object, "a\":1}")).isTrue();
        assertThat(object.closed()).isTrue();
    }

    @Test
    void reasoningThatMayComeNeedNot() {
        for (String text : List.of("true", "\ntrue", "<think>x</think>true", "\n<think>\n</think>\n\ntrue")) {
            GuideRun run = run("{\"type\":\"boolean\"}", Reasoning.POSSIBLE);
            assertThat(leads(run, text)).as(text).isTrue();
            assertThat(run.closed()).isTrue();
        }
        GuideRun marked = run("{\"type\":\"boolean\"}", Reasoning.POSSIBLE);
        assertThat(allowed(marked)).contains(vocabulary.id("<think>")).doesNotContain(vocabulary.id("</think>"));
        assertThat(marked.advance(vocabulary.id("<think>"))).isTrue();
        assertThat(leads(marked, "<think></think>false")).isTrue();
        assertThat(leads(run("{\"type\":\"boolean\"}", Reasoning.POSSIBLE), "<b")).isFalse();
        assertThat(leads(run("{\"type\":\"boolean\"}"), "<")).isFalse();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "{\"type\":\"integer\"} | 0 -1 10 999999999999999999 | -0 01 1.0 1e3 1000000000000000000 +1",
        "{\"type\":\"number\"} | 0 -0 0.5 1e5 1E+05 -12.250 0e1 | .5 1. 00 1e123",
        "{\"type\":\"integer\",\"minimum\":5,\"maximum\":30} | 5 6 9 10 29 30 | 4 0 31 50 -5 300",
        "{\"type\":\"integer\",\"exclusiveMinimum\":-3,\"exclusiveMaximum\":3} | -2 -1 0 1 2 | -3 3 -0 20",
        "{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":2.5} | 1 2 | 0 3",
        "{\"type\":\"number\",\"minimum\":0.25,\"exclusiveMaximum\":10} | 0.25 0.250 0.3 9.999 5 | 0.2 0 10 10.0 1e1 0.24999",
        "{\"type\":\"number\",\"maximum\":-1.5} | -1.5 -1.50 -1.6 -2 -10 | -1 -1.4 0 1.5",
        "{\"type\":\"number\",\"exclusiveMinimum\":0} | 0.1 1 0.000000000000000001 | 0 -0 0.0 -1",
        "{\"enum\":[1,12,\"1\",true]} | 1 12 \"1\" true | 2 11 13 false",
        "{\"const\":{\"a\":[1]}} | {\"a\":[1]} | {} {\"a\":[]} {\"a\":[1,1]} {\"b\":1}",
        "{\"type\":[\"null\",\"boolean\"]} | null true | nul 1 {}",
        "{\"anyOf\":[{\"type\":\"string\",\"minLength\":2,\"maxLength\":3},{\"type\":\"string\",\"maxLength\":1},{\"type\":\"string\",\"minLength\":6}]} "
                + "| \"\" \"a\" \"ab\" \"abc\" \"abcdef\" \"abcdefghi\" | \"abcd\" \"abcde\"",
        "{\"type\":\"string\",\"nullable\":true} | null \"\" | 1",
        "{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":{\"const\":3},\"minItems\":1,\"maxItems\":3} "
                + "| [1] [1,2] [1,2,3] | [] [2] [1,3] [1,2,2] [1,2,3,3]",
        "{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":false} | [] [1] | [1,1]",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}},\"required\":[\"b\"]} "
                + "| {\"a\":1,\"b\":2} {\"b\":2} | {} {\"a\":1} {\"b\":2,\"a\":1} {\"b\":2,\"c\":1} {\"\\u0061\":1",
        "{\"type\":\"object\",\"properties\":{\"ab\":{\"const\":1}},\"additionalProperties\":{\"const\":2}} "
                + "| {\"ab\":1} {\"ab\":1,\"a\":2,\"abc\":2} {\"a\":2} {} | {\"ab\":2} {\"a\":1} {\"a\":2,\"ab\":1} {\"a\":2,\"a\":2}",
        "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"x\":{\"const\":1}},\"required\":[\"x\"]},"
                + "{\"type\":\"object\",\"additionalProperties\":{\"const\":2}}]} | {\"x\":1} {\"x\":2} {\"x\":2,\"y\":2} {} | {\"x\":1,\"y\":2} {\"x\":3}",
        "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"}}}},\"$ref\":\"#/$defs/n\"} "
                + "| {} {\"n\":{}} {\"n\":{\"n\":{}}} | {\"n\":1} {\"m\":{}}",
    })
    void takesWhatTheSchemaAllows(String schema, String good, String bad) {
        for (String text : good.split(" ")) {
            assertThat(accepts(schema, text)).as(text).isTrue();
        }
        for (String text : bad.split(" ")) {
            assertThat(accepts(schema, text)).as(text).isFalse();
        }
    }

    @Test
    void countsCharactersNotBytes() {
        String schema = "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}";
        for (String good : List.of("ab", "abc", "éé€", "😀😀😀", "\\n\\\"", "\\ud83d\\ude00\\u00e9a")) {
            assertThat(accepts(schema, "\"" + good + "\"")).as(good).isTrue();
        }
        for (String bad : List.of("", "a", "😀", "\\ud83d\\ude00", "abcd", "éé€a")) {
            assertThat(accepts(schema, "\"" + bad + "\"")).as(bad).isFalse();
        }
    }

    /// Every number of a range can be written, and no other.
    @Test
    void rangesOfNumbersAreExact() {
        SplittableRandom random = new SplittableRandom(5);
        for (int i = 0; i < 60; i++) {
            boolean integer = i % 2 == 0;
            BigDecimal low = BigDecimal.valueOf(random.nextInt(-150, 150), integer ? 0 : random.nextInt(3));
            BigDecimal high = low.add(BigDecimal.valueOf(random.nextInt(0, 250), integer ? 0 : random.nextInt(3)));
            boolean lowOut = random.nextInt(3) == 0;
            boolean highOut = random.nextInt(3) == 0;
            RangeRule rule = new RangeRule(integer, low, !lowOut, high, !highOut);
            for (int n = -450; n <= 450; n++) {
                for (int scale : integer ? new int[] {0} : new int[] {0, 1, 2}) {
                    BigDecimal value = BigDecimal.valueOf(n, scale);
                    int toLow = value.compareTo(low);
                    int toHigh = value.compareTo(high);
                    boolean inside = (toLow > 0 || toLow == 0 && !lowOut) && (toHigh < 0 || toHigh == 0 && !highOut);
                    String where = "%s in %s%s, %s%s".formatted(value, lowOut ? "(" : "[", low, high, highOut ? ")" : "]");
                    assertThat(rule.depth() == 0 && takes(rule, value.toPlainString())).as(where).isEqualTo(inside);
                }
            }
        }
    }

    private static boolean takes(Rule rule, String text) {
        Place place = rule.start(0);
        for (int i = 0; i < text.length() && place != null; i++) {
            place = place.step(text.charAt(i));
        }
        return place != null && place.complete();
    }

    /// Where a number stops being one there is always a digit that goes on, up to an end: no dead end inside a range.
    @Test
    void rangesOfNumbersHaveNoDeadEnds() {
        SplittableRandom random = new SplittableRandom(6);
        for (int i = 0; i < 400; i++) {
            boolean integer = random.nextBoolean();
            BigDecimal low = random.nextInt(4) == 0 ? null : BigDecimal.valueOf(random.nextLong(-2_000, 2_000), random.nextInt(4));
            BigDecimal high = random.nextInt(4) == 0 ? null : BigDecimal.valueOf(random.nextLong(-2_000, 2_000), random.nextInt(4));
            RangeRule rule = new RangeRule(integer, low, random.nextBoolean(), high, random.nextBoolean());
            for (int walk = 0; walk < 20 && rule.depth() == 0; walk++) {
                Place place = rule.start(0);
                StringBuilder text = new StringBuilder();
                while (true) {
                    Place from = place;
                    List<Integer> next = IntStream.range(0, 256).filter(b -> from.step(b) != null).boxed().toList();
                    if (next.isEmpty()) {
                        break;
                    }
                    int b = next.get(random.nextInt(next.size()));
                    text.append((char) b);
                    place = java.util.Objects.requireNonNull(place.step(b));
                }
                assertThat(place.complete()).as("%s of [%s, %s]", text, low, high).isTrue();
                BigDecimal value = new BigDecimal(text.toString());
                assertThat(low == null || value.compareTo(low) >= 0).as("%s of [%s, %s]", text, low, high).isTrue();
                assertThat(high == null || value.compareTo(high) <= 0).as("%s of [%s, %s]", text, low, high).isTrue();
            }
        }
    }

    @Test
    void nestsAsDeepAsItSaysAndNoDeeper() {
        GuideRun run = engine.start(engine.guide(new ResponseFormat.JsonObject()), Reasoning.NONE);
        assertThat(leads(run, "{\"a\":" + "[".repeat(Guide.MAX_DEPTH - 1))).isTrue();
        assertThat(allowed(run)).doesNotContain((int) '[', (int) '{').contains((int) ']', (int) '1');
        assertThat(leads(run, "1" + "]".repeat(Guide.MAX_DEPTH - 1) + "}")).isTrue();
        assertThat(run.closed()).isTrue();
        // A key is not begun where its value would be too deep.
        String list = "{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"},\"v\":{\"type\":\"integer\"}}}";
        GuideRun deep = run(list);
        assertThat(leads(deep, "{\"n\":".repeat(Guide.MAX_DEPTH - 1) + "{\"")).isTrue();
        assertThat(allowed(deep)).doesNotContain((int) 'n').contains((int) 'v');
    }

    @Test
    void aVocabularyThatCannotGoOnIsADeadEnd() {
        TestVocabulary odd = new TestVocabulary(false, List.of("{", "\"a", "\":", "x"));
        GuideEngine with = engine(odd);
        GuideRun run = with.start(with.guide(new ResponseFormat.JsonSchema(
                "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}}}")), Reasoning.NONE);
        assertThat(run.advance(0)).isTrue();
        assertThat(run.advance(1)).isTrue();
        assertThat(run.masked(new float[odd.vocabSize()], 0)).isNotNull();
        assertThat(run.advance(2)).isTrue();
        assertThat(run.masked(new float[odd.vocabSize()], 0)).isNull();
    }

    @Test
    void masksLeaveTheLogitsOfAllowedTokensAsTheyAre() {
        GuideRun run = run("{\"type\":\"boolean\"}");
        float[] logits = new float[vocabulary.vocabSize() + 3];
        for (int i = 0; i < logits.length; i++) {
            logits[i] = -i;
        }
        float[] masked = java.util.Objects.requireNonNull(run.masked(logits, 3));
        List<Integer> allowed = allowed(run);
        for (int id = 0; id < vocabulary.vocabSize(); id++) {
            assertThat(masked[id]).isEqualTo(allowed.contains(id) ? -id - 3 : Float.NEGATIVE_INFINITY);
        }
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "{\"type\":\"string\",\"pattern\":\"a\"} | GUIDE_UNSUPPORTED | schema at #: expected words that a completion can be held to, got \"pattern\"",
        "{\"properties\":{\"a\":{\"not\":{}}}} | GUIDE_UNSUPPORTED | schema at #/properties/a: expected words that a completion can be held to, got \"not\"",
        "{\"type\":\"number\",\"multipleOf\":2} | GUIDE_UNSUPPORTED | got \"multipleOf\"",
        "{\"x-mine\":1} | GUIDE_UNSUPPORTED | got \"x-mine\"",
        "{\"type\":\"array\",\"uniqueItems\":true} | GUIDE_UNSUPPORTED | got \"uniqueItems\"",
        "{\"type\":\"array\",\"items\":[{}]} | GUIDE_UNSUPPORTED | got \"items\" as an array; say \"prefixItems\"",
        "{\"allOf\":[{},{}]} | GUIDE_UNSUPPORTED | got \"allOf\" of more than one schema",
        "{\"anyOf\":[{}],\"type\":\"object\"} | GUIDE_UNSUPPORTED | got \"type\" beside \"anyOf\"",
        "{\"$ref\":\"#\",\"minLength\":1} | GUIDE_UNSUPPORTED | got \"minLength\" beside \"$ref\"",
        "{\"enum\":[\"a\"],\"minLength\":1} | GUIDE_UNSUPPORTED | got \"minLength\" beside \"enum\"",
        "{\"enum\":[1],\"const\":1} | GUIDE_UNSUPPORTED | got \"const\" beside \"enum\"",
        "{\"$ref\":\"https://example.org/s\"} | GUIDE_UNSUPPORTED | schema at #/$ref: expected words that a completion can be held to, got \"https://example.org/s\"",
        "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]} | GUIDE_UNSUPPORTED | schema at #/oneOf: expected alternatives of which no value meets two, told apart by type, constants or required properties, got 0 and 1",
        "{\"oneOf\":[{\"properties\":{}},{\"type\":\"string\"}]} | GUIDE_UNSUPPORTED | got 0 and 1",
        "{\"type\":\"text\"} | GUIDE_SCHEMA | schema at #/type: expected object, array, string, number, integer, boolean, null, or a list of some, got \"text\"",
        "{\"type\":\"string\",\"minLength\":-1} | GUIDE_SCHEMA | schema at #/minLength: expected a number of 0, 1, 2, …, got -1",
        "{\"properties\":[]} | GUIDE_SCHEMA | schema at #/properties: expected an object, got an empty array",
        "{\"required\":[1]} | GUIDE_SCHEMA | schema at #/required: expected strings, got a value of kind number",
        "{\"anyOf\":[]} | GUIDE_SCHEMA | schema at #/anyOf: expected an array of at least one schema, got an empty array",
        "{\"enum\":[]} | GUIDE_SCHEMA | schema at #/enum: expected an array of at least one value",
        "{\"items\":3} | GUIDE_SCHEMA | schema at #/items: expected an object, true or false, got a value of kind number",
        "{\"$ref\":\"#/$defs/x\"} | GUIDE_SCHEMA | schema at #/$ref: expected a place in the schema, got \"#/$defs/x\"",
        "{\"const\":\"\\ud800\"} | GUIDE_SCHEMA | schema at #: expected strings that UTF-8 can hold, got a lone surrogate",
        "{\"type\":\"number\",\"minimum\":1e99} | GUIDE_LIMIT | schema at #/minimum: expected a number of at most 19 digits before the point and 17 behind it",
        "{\"type\":\"string\",\"maxLength\":1000001} | GUIDE_LIMIT | schema at #/maxLength: expected at most 1000000, got 1000001",
        "{\"not json | GUIDE_SCHEMA | schema at #: expected JSON, nested at most 64 deep, keys once, got other text",
        "{\"type\":\"string\",\"type\":\"null\"} | GUIDE_SCHEMA | keys once",
        "false | GUIDE_UNSATISFIABLE | schema at #: expected one that some value meets, nested at most 64 deep, got one that none does",
        "{\"type\":\"string\",\"minLength\":2,\"maxLength\":1} | GUIDE_UNSATISFIABLE | got one that none does",
        "{\"type\":\"integer\",\"minimum\":0.2,\"maximum\":0.8} | GUIDE_UNSATISFIABLE | got one that none does",
        "{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]} | GUIDE_UNSATISFIABLE | got one that none does",
        "{\"type\":\"array\",\"items\":false,\"minItems\":1} | GUIDE_UNSATISFIABLE | got one that none does",
        "{\"enum\":[1],\"type\":\"string\"} | GUIDE_UNSATISFIABLE | got one that none does",
    })
    void refusesByName(String schema, String code, String message) {
        assertThatThrownBy(() -> run(schema.strip()))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageStartingWith("response_format: ")
                .hasMessageContaining(message.strip())
                .extracting(e -> ((InvalidRequestException) e).code()).isEqualTo(code);
    }

    @Test
    void passesOverWhatRestrictsNothing() {
        assertThat(accepts("{\"$schema\":\"x\",\"$id\":\"y\",\"title\":\"t\",\"description\":\"d\",\"default\":3,\"examples\":[1],"
                + "\"deprecated\":true,\"format\":\"date\",\"$comment\":\"c\",\"type\":\"boolean\"}", "true")).isTrue();
    }

    @Test
    void boundsTheWorkThatASchemaMakes() {
        String many = IntStream.range(0, 65).mapToObj(i -> "{\"type\":\"object\",\"properties\":{\"a" + i + "\":{}}}").collect(Collectors.joining(","));
        assertThatThrownBy(() -> run("{\"anyOf\":[" + many + "]}")).hasMessageContaining("at most 64 alternatives of a value, got 65");
        String values = IntStream.range(0, 2_001).mapToObj(String::valueOf).collect(Collectors.joining(","));
        assertThatThrownBy(() -> run("{\"enum\":[" + values + "]}")).hasMessageContaining("at most 2000 values, got 2001");
        String properties = IntStream.range(0, 1_001).mapToObj(i -> "\"p" + i + "\":{}").collect(Collectors.joining(","));
        assertThatThrownBy(() -> run("{\"properties\":{" + properties + "}}")).hasMessageContaining("at most 1000 properties, got 1001");
        assertThatThrownBy(() -> run("\"" + "x".repeat(70_000) + "\"")).hasMessageContaining("at most 65536 characters, got 70002");
        String deep = "{\"items\":".repeat(70) + "{}" + "}".repeat(70);
        assertThatThrownBy(() -> run(deep)).hasMessageContaining("nested at most 64 deep");
    }

    /// A chain of references as long as a schema may be, and alternatives that multiply, are read in a moment.
    @Test
    void readsWhatIsMadeToTakeLong() {
        String chain = IntStream.range(0, 1_500).mapToObj(i -> "\"d%d\":{\"$ref\":\"#/$defs/d%d\"}".formatted(i, i + 1)).collect(Collectors.joining(","));
        assertThat(accepts("{\"$ref\":\"#/$defs/d0\",\"$defs\":{" + chain + ",\"d1500\":{\"type\":\"null\"}}}", "null")).isTrue();
        String nested = IntStream.range(0, 400).mapToObj(i -> ("\"d%d\":{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},"
                + "{\"$ref\":\"#/$defs/d%d\"}]}},\"required\":[\"a\"]}").formatted(i, i + 1, i + 2)).collect(Collectors.joining(","));
        assertThatThrownBy(() -> run("{\"$ref\":\"#/$defs/d0\",\"$defs\":{" + nested + ",\"d400\":{},\"d401\":{}}}"))
                .extracting(e -> ((InvalidRequestException) e).code()).isEqualTo("GUIDE_UNSATISFIABLE");
    }

    /// Whatever a schema allows, in three ways of writing and any split into tokens.
    @Test
    void takesEveryDocumentInEverySplit() throws Exception {
        int taken = 0;
        for (int seed = 0; seed < 400; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            JsonNode schema = new RandomSchemas(random).next();
            Guide guide;
            try {
                guide = engine.guide(new ResponseFormat.JsonSchema(schema.toString()));
            } catch (InvalidRequestException e) {
                continue;
            }
            for (int i = 0; i < 4; i++) {
                JsonNode document = new RandomDocuments(schema, random).next();
                if (document == null) {
                    continue;
                }
                String text = RandomDocuments.print(document, i % 3);
                GuideRun run = engine.start(guide, Reasoning.NONE);
                for (int id : vocabulary.split(text, random)) {
                    assertThat(allowed(run)).as("seed %s: %s of %s", seed, text, schema).contains(id);
                    assertThat(run.advance(id)).isTrue();
                }
                assertThat(run.complete()).as("seed %s: %s of %s", seed, text, schema).isTrue();
                taken++;
            }
        }
        assertThat(taken).isGreaterThan(500);
    }
}

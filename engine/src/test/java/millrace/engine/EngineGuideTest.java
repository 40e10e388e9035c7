package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import millrace.engine.guide.SchemaJudge;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// The bundled models, which have never seen a schema, answer in the form that was asked for.
@Timeout(180)
class EngineGuideTest {
    private static final String SCHEMA = """
            {"type": "object",
             "properties": {
               "name": {"type": "string", "minLength": 1, "maxLength": 12},
               "kind": {"enum": ["river", "town", "émigré 😀", 7, null]},
               "population": {"type": "integer", "minimum": 1, "maximum": 99999},
               "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1, "maxItems": 3},
               "near": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]}},
             "required": ["name", "kind", "population", "tags"],
             "$defs": {"place": {"type": "object", "properties": {
               "lat": {"type": "number", "minimum": -90, "maximum": 90}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]}},
               "required": ["lat", "next"]}}}""";
    private static final int SEEDS = 50;
    private static final JsonMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .build())
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .build();
    private static final ResponseFormat FORMAT = new ResponseFormat.JsonSchema(SCHEMA);

    private static EngineConfig config(String model) {
        return EngineConfig.of(Path.of("../streams/src/main/resources/models", model)).withThreads(2);
    }

    private static GenerationRequest request(String id, float temperature, long seed, int tokens, ResponseFormat format) {
        var input = new PromptInput.Messages(
                List.of(ChatMessage.of("user", "Which river flows through the town?")), ChatOptions.DEFAULT);
        var sampling = new Sampling(temperature, 1f, 0, 0f, 1f, seed);
        return new GenerationRequest(id, input, sampling, tokens, List.of(), Long.MAX_VALUE, 0).withFormat(format);
    }

    private static List<GenerationResult> answers(Engine engine, List<GenerationRequest> requests) {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (GenerationRequest request : requests) {
            var end = new CompletableFuture<GenerationResult>();
            engine.submit(engine.prepare(request), end::complete);
            ends.add(end);
        }
        return ends.stream().map(CompletableFuture::join).toList();
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void everyAnswerMeetsItsSchema(String model) throws Exception {
        List<GenerationRequest> requests = new ArrayList<>();
        for (int seed = 0; seed < SEEDS; seed++) {
            requests.add(request("t0-" + seed, seed % 10 == 0 ? 0f : 0.7f, seed, 400, FORMAT));
            requests.add(request("t1.5-" + seed, 1.5f, seed, 400, FORMAT));
        }
        SchemaJudge judge = new SchemaJudge(JSON.readTree(SCHEMA));
        try (Engine engine = Engine.open(config(model).withMaxBatch(16))) {
            int whole = 0;
            for (GenerationResult result : answers(engine, requests)) {
                // Only a document that is still open may be cut.
                assertThat(result.reason()).as(result.text()).isIn(FinishReason.STOP, FinishReason.LENGTH);
                if (result.reason() == FinishReason.STOP) {
                    whole++;
                    JsonNode document = JSON.readTree(result.text());
                    assertThat(judge.accepts(document)).as(result.text()).isTrue();
                }
            }
            assertThat(whole).isGreaterThan(requests.size() * 9 / 10);
        }
    }

    @Test
    void everyObjectIsOne() throws Exception {
        List<GenerationRequest> requests = new ArrayList<>();
        for (int seed = 0; seed < SEEDS; seed++) {
            requests.add(request("o" + seed, 1.5f, seed, 300, new ResponseFormat.JsonObject()));
        }
        try (Engine engine = Engine.open(config("glm-tiny").withMaxBatch(16))) {
            int whole = 0;
            for (GenerationResult result : answers(engine, requests)) {
                if (result.reason() == FinishReason.STOP) {
                    whole++;
                    assertThat(JSON.readTree(result.text()).isObject()).as(result.text()).isTrue();
                }
            }
            assertThat(whole).isPositive();
        }
    }

    /// Chosen as from a vocabulary that has no other tokens: nothing of the batch, the chunks, the threads, the backend or a preemption
    /// shows in the answer, nor does what other requests have asked for before.
    @Test
    void answersAreAFunctionOfModelPromptSamplingAndForm() {
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            ResponseFormat format = i % 4 == 3 ? ResponseFormat.TEXT : i % 2 == 0 ? FORMAT : new ResponseFormat.JsonObject();
            GenerationRequest request = request("r" + i, i % 3 == 0 ? 0f : 1.2f, 7 + i, 60, format);
            requests.add(new GenerationRequest(request.id(), request.input(),
                    new Sampling(request.sampling().temperature(), 0.9f, 40, 0.01f, 1.1f, 7 + i), 60, List.of(),
                    Long.MAX_VALUE, 0).withFormat(format));
        }
        List<List<Integer>> expected = tokens(requests, UnaryOperator.identity(), false);
        List<UnaryOperator<EngineConfig>> others = List.of(
                c -> c.withMaxBatch(1).withThreads(1).withPrefillChunk(3),
                c -> c.withMaxBatch(3).withBackend("scalar"),
                c -> c.withMaxBatch(8).withPrefillChunk(5).withKvBytes(pages(c, 24)));
        for (UnaryOperator<EngineConfig> other : others) {
            assertThat(tokens(requests, other, true)).isEqualTo(expected);
        }
    }

    private static long pages(EngineConfig config, int pages) {
        return pages * ModelInspection.of(config.model(), null).kv().stream()
                .filter(cost -> cost.format().equals(KvFormat.BF16.id()))
                .findFirst()
                .orElseThrow()
                .pageBytes();
    }

    private static List<List<Integer>> tokens(
            List<GenerationRequest> requests, UnaryOperator<EngineConfig> change, boolean others) {
        EngineConfig config = change.apply(config("glm-tiny").withKvFormat(KvFormat.BF16).withMaxBatch(8));
        try (Engine engine = Engine.open(config)) {
            if (others) {
                answers(engine, List.of(request("x", 1f, 99, 20, new ResponseFormat.JsonSchema("{\"type\":\"array\"}"))));
            }
            return answers(engine, requests).stream().map(GenerationResult::tokenIds).toList();
        }
    }

    @Test
    void anAnswerIsFollowedByItsForm() {
        try (Engine engine = Engine.open(config("glm-tiny"))) {
            PreparedPrompt guided = engine.prepare(request("g", 1f, 3, 80, FORMAT));
            GenerationResult answer = answers(engine, List.of(guided.request())).getFirst();
            Trace own = trace(engine, guided, answer.tokenIds());
            assertThat(own.departures()).isEmpty();
            assertThat(own.text()).isEqualTo(answer.text());
            assertThat(own.reason()).isEqualTo(answer.reason());
            // What no form allows is no near tie.
            PreparedPrompt free = engine.prepare(guided.request().withFormat(ResponseFormat.TEXT));
            GenerationResult text = answers(engine, List.of(free.request())).getFirst();
            Trace forged = trace(engine, guided, text.tokenIds());
            assertThat(forged.departures().getFirst().gap()).isEqualTo(Double.POSITIVE_INFINITY);
        }
    }

    private static Trace trace(Engine engine, PreparedPrompt prompt, List<Integer> answer) {
        var end = new CompletableFuture<Trace>();
        engine.trace(prompt, answer, end::complete);
        return end.join();
    }

    @Test
    void saysThatADocumentWasCut() {
        try (Engine engine = Engine.open(config("glm-tiny"))) {
            GenerationResult cut = answers(engine, List.of(request("c", 0f, 0, 5, FORMAT))).getFirst();
            assertThat(cut.reason()).isEqualTo(FinishReason.LENGTH);
            assertThat(cut.tokenIds()).hasSize(5);
            assertThat(cut.text().strip()).startsWith("{");
        }
    }

    @Test
    void refusesWhatItCannotHoldTo() {
        try (Engine engine = Engine.open(config("glm-tiny"))) {
            GenerationRequest pattern = request("p", 0f, 0, 5, new ResponseFormat.JsonSchema("{\"type\":\"string\",\"pattern\":\"a+\"}"));
            assertThatThrownBy(() -> engine.prepare(pattern))
                    .hasMessage("response_format: schema at #: expected words that a completion can be held to, got \"pattern\";"
                            + " leave it out or say it otherwise, see docs/response-formats.md")
                    .extracting(e -> ((InvalidRequestException) e).code()).isEqualTo("GUIDE_UNSUPPORTED");
            GenerationRequest plain = request("s", 0f, 0, 5, FORMAT);
            GenerationRequest stop = new GenerationRequest("s", plain.input(), plain.sampling(), 5, List.of("}"), Long.MAX_VALUE, 0)
                    .withFormat(FORMAT);
            assertThatThrownBy(() -> engine.prepare(stop))
                    .hasMessage("stop: expected no strings beside response_format, got 1; leave them out, a document ends where it is whole")
                    .extracting(e -> ((InvalidRequestException) e).code()).isEqualTo("GUIDE_STOP");
        }
    }
}

package millrace.engine.guide;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.InvalidRequestException;
import millrace.engine.ResponseFormat;
import millrace.engine.tokenizer.Reasoning;
import org.junit.jupiter.api.Test;

/// Walks through random schemas by tokens that are allowed: whatever is chosen, the way ends in a valid document. More of them with
/// `-Dmillrace.guide.schemas=100000`.
class GuideWalkTest {
    private static final int SCHEMAS = Integer.getInteger("millrace.guide.schemas", 250);
    static final JsonMapper JSON = JsonMapper.builder(JsonFactory.builder()
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .build())
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .build();

    private final TestVocabulary vocabulary = TestVocabulary.standard();
    private final GuideEngine engine = new GuideEngine(vocabulary, vocabulary.vocabSize() + 5, vocabulary.stops(), null);

    @Test
    void endsInValidDocumentsWhateverIsChosen() throws Exception {
        int walked = 0;
        int refused = 0;
        for (int seed = 0; seed < SCHEMAS; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            JsonNode schema = new RandomSchemas(random).next();
            Guide guide;
            try {
                guide = engine.guide(new ResponseFormat.JsonSchema(schema.toString()));
            } catch (InvalidRequestException e) {
                assertThat(e.code()).as(seed + " " + schema).isIn("GUIDE_UNSUPPORTED", "GUIDE_UNSATISFIABLE");
                refused++;
                continue;
            }
            SchemaJudge judge = new SchemaJudge(schema);
            for (int i = 0; i < 3; i++) {
                String text = walk(guide, random, i == 0, "seed " + seed + " " + schema);
                JsonNode document = JSON.readTree(text);
                assertThat(judge.accepts(document)).as("seed %s: %s does not meet %s", seed, text, schema).isTrue();
                walked++;
            }
        }
        assertThat(walked).as("%s refused", refused).isGreaterThan(SCHEMAS);
    }

    @Test
    void endsInObjectsWithoutASchema() throws Exception {
        Guide guide = engine.guide(new ResponseFormat.JsonObject());
        for (int seed = 0; seed < 200; seed++) {
            String text = walk(guide, new SplittableRandom(seed), seed % 10 == 0, "seed " + seed);
            assertThat(JSON.readTree(text).isObject()).as(text).isTrue();
        }
    }

    /// @param compare whether every mask is compared with a try of every token
    private String walk(Guide guide, SplittableRandom random, boolean compare, String what) throws CharacterCodingException {
        GuideRun run = engine.start(guide, Reasoning.NONE);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        List<Integer> ids = new ArrayList<>();
        while (!run.closed()) {
            List<Integer> allowed = allowed(run);
            assertThat(allowed).as("%s: dead end after %s", what, bytes).isNotEmpty();
            if (compare) {
                assertThat(allowed).as("%s: after %s", what, bytes).isEqualTo(tried(guide, ids));
            }
            int id = choose(allowed, random, ids.size());
            if (id == vocabulary.id(TestVocabulary.END)) {
                assertThat(run.complete()).isTrue();
                break;
            }
            assertThat(run.advance(id)).as("%s: after %s token %s", what, bytes, id).isTrue();
            ids.add(id);
            bytes.writeBytes(vocabulary.token(id));
            assertThat(ids.size()).as("%s: goes on for ever: %s", what, bytes).isLessThan(3_000);
        }
        assertThat(run.complete()).isTrue();
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes.toByteArray())).toString();
    }

    static List<Integer> allowed(GuideRun run) {
        List<Integer> ids = new ArrayList<>();
        long[] words = run.allowed();
        for (int id = 0; id < words.length * 64; id++) {
            if ((words[id >> 6] >>> id & 1) != 0) {
                ids.add(id);
            }
        }
        return ids;
    }

    private List<Integer> tried(Guide guide, List<Integer> ids) {
        List<Integer> allowed = new ArrayList<>();
        for (int id = 0; id < vocabulary.vocabSize(); id++) {
            GuideRun run = engine.start(guide, Reasoning.NONE);
            ids.forEach(run::advance);
            boolean end = vocabulary.stops().contains(id) && run.complete();
            if (end || !run.closed() && run.advance(id)) {
                allowed.add(id);
            }
        }
        return allowed;
    }

    /// Any; the longer it takes, the rather one that ends something.
    private int choose(List<Integer> allowed, SplittableRandom random, int length) {
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
}

package millrace.engine.weights;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.InvalidModelException;
import org.junit.jupiter.api.Test;

/// The index against a reader that builds the whole tree: the same map, or a refusal.
class WeightIndexFuzzTest {
    private static final ObjectMapper TREE =
            JsonMapper.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();
    private static final String SOUND = "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a.weight\":\"m-1.safetensors\","
            + "\"b.weight\":\"m-2.safetensors\",\"c.weight\":\"m-1.safetensors\"}}";
    private static final String[] WORDS = {"null", "{}", "[]", "\"weight_map\":", "\"a.weight\":\"x\"", ",", "1e400", "\\u0041", "}",
        "{\"x\":", "7", "\"\""};

    @Test
    void readsTheMapOfTheTreeOrRefuses() throws IOException {
        SplittableRandom random = new SplittableRandom(1);
        int read = 0;
        for (int i = 0; i < 20_000; i++) {
            String text = changed(random);
            byte[] json = text.getBytes(StandardCharsets.UTF_8);
            Map<String, String> map;
            try {
                map = WeightIndex.parse(json);
            } catch (InvalidModelException e) {
                assertThat(e.code()).as(text).startsWith("IDX_");
                assertThat(e.getMessage()).as(text).endsWith("; restore the file").doesNotContain("\n");
                continue;
            } catch (RuntimeException e) {
                throw new AssertionError("round " + i + ": " + text, e);
            }
            read++;
            assertThat(map).as(text).isEqualTo(tree(json));
        }
        assertThat(read).isGreaterThan(2_000);
    }

    private static Map<String, String> tree(byte[] json) throws IOException {
        Map<String, String> map = new LinkedHashMap<>();
        try {
            for (Map.Entry<String, JsonNode> entry : TREE.readTree(json).get("weight_map").properties()) {
                map.put(entry.getKey(), entry.getValue().textValue());
            }
        } catch (JsonProcessingException e) {
            throw new AssertionError("read what is no JSON", e);
        }
        return map;
    }

    private static String changed(SplittableRandom random) {
        StringBuilder text = new StringBuilder(SOUND);
        for (int changes = random.nextInt(0, 4); changes > 0; changes--) {
            int at = random.nextInt(text.length());
            switch (random.nextInt(4)) {
                case 0 -> text.setCharAt(at, (char) random.nextInt(1, 300));
                case 1 -> text.deleteCharAt(at);
                case 2 -> text.replace(at, Math.min(text.length(), at + random.nextInt(8)), WORDS[random.nextInt(WORDS.length)]);
                default -> text.insert(at, WORDS[random.nextInt(WORDS.length)]);
            }
        }
        return text.toString();
    }
}

package millrace.engine.reply;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// JSON as models write it, read strictly and within limits: one value, each key once.
final class JsonText {
    static final int MAX_DEPTH = 64;

    private static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(400)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
                    .build())
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();

    private JsonText() {}

    /// The value, or null if the text is not exactly one.
    static @Nullable JsonNode parse(String text) {
        try {
            JsonNode node = MAPPER.readTree(text);
            return node == null || node.isMissingNode() ? null : node;
        } catch (JacksonException e) {
            return null;
        }
    }

    /// Whether the text is exactly one object.
    static boolean isObject(String text) {
        JsonNode node = parse(text);
        return node != null && node.isObject();
    }

    static String quote(String text) {
        return TextNode.valueOf(text).toString();
    }

    /// The values of an object by their keys, each as it is written; null if the text is not exactly one object.
    static @Nullable Map<String, String> fields(String text) {
        if (!isObject(text)) {
            return null;
        }
        Map<String, String> fields = new LinkedHashMap<>();
        try (JsonParser parser = MAPPER.createParser(text)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                int begin = (int) parser.currentTokenLocation().getCharOffset();
                parser.skipChildren();
                // A number or a string is read to its end only when it is asked for.
                parser.finishToken();
                int end = (int) parser.currentLocation().getCharOffset();
                fields.put(name, Blank.strip(text.substring(begin, end)));
            }
        } catch (IOException e) {
            throw new IllegalStateException("JSON that was read once can be read again", e);
        }
        return fields;
    }
}

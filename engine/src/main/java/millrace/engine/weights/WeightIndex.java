package millrace.engine.weights;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import millrace.engine.InvalidModelException;

/// `model.safetensors.index.json`: which file has which tensor. Streamed, because real ones have 200,000 entries.
final class WeightIndex {
    private static final String WHERE = ModelFiles.INDEX;
    private static final Pattern PLAIN_NAME = Pattern.compile("[A-Za-z0-9_][A-Za-z0-9._-]{0,254}");
    private static final JsonFactory FACTORY = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNestingDepth(16)
                    .maxNumberLength(64)
                    .maxNameLength(4096)
                    .maxStringLength(1 << 16)
                    .build())
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
            .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
            .build();

    private WeightIndex() {}

    /// Whether the name has no separators, no leading dot, and nothing that a file system or terminal could take for
    /// more than a name.
    static boolean isPlainName(String name) {
        return PLAIN_NAME.matcher(name).matches();
    }

    /// Tensor name to file name, in the order of the file. File names are not yet checked.
    static Map<String, String> parse(byte[] json) {
        Map<String, String> map = null;
        var reader = new InputStreamReader(
                new ByteArrayInputStream(json), SafetensorsHeader.strictUtf8());
        try (JsonParser parser = FACTORY.createParser(reader)) {
            require(parser.nextToken() == JsonToken.START_OBJECT, "a JSON object");
            Set<String> keys = new HashSet<>();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String key = parser.currentName();
                if (!keys.add(key)) {
                    throw twice(key);
                }
                JsonToken value = parser.nextToken();
                if (key.equals("weight_map")) {
                    require(value == JsonToken.START_OBJECT, "weight_map to be an object");
                    map = weightMap(parser);
                } else {
                    parser.skipChildren();
                }
            }
            require(parser.nextToken() == null, "nothing after the object");
        } catch (JsonProcessingException e) {
            throw new InvalidModelException(
                    "IDX_JSON",
                    WHERE + ": expected strict JSON, got: " + JsonFiles.oneLine(e) + "; restore the file",
                    e);
        } catch (IOException e) {
            throw new InvalidModelException(
                    "IDX_JSON", WHERE + ": expected UTF-8, got other bytes; restore the file", e);
        }
        if (map == null || map.isEmpty()) {
            throw new InvalidModelException(
                    "IDX_INCOMPLETE", WHERE + ": expected a weight_map with tensors, got none; restore the file");
        }
        return map;
    }

    private static Map<String, String> weightMap(JsonParser parser) throws IOException {
        Map<String, String> map = new LinkedHashMap<>();
        // File names repeat: one instance each, not one per tensor.
        Map<String, String> names = new HashMap<>();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String tensor = parser.currentName();
            require(parser.nextToken() == JsonToken.VALUE_STRING, "file names as strings");
            String file = parser.getText();
            if (map.put(tensor, names.computeIfAbsent(file, f -> f)) != null) {
                throw twice(tensor);
            }
        }
        return map;
    }

    private static InvalidModelException twice(String key) {
        return new InvalidModelException(
                "IDX_INCOMPLETE",
                WHERE + ": expected every name once, got " + Text.quote(key) + " twice; restore the file");
    }

    private static void require(boolean condition, String expected) {
        if (!condition) {
            throw new InvalidModelException(
                    "IDX_JSON", WHERE + ": expected " + expected + ", got something else; restore the file");
        }
    }
}

package millrace.engine;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.Iterator;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Reads what a request says of the form of its completion, within limits: nothing unknown is passed over, since who wrote
/// it counts on it.
final class ResponseFormatReader {
    static final int MAX_CHARACTERS = 1 << 16;
    static final int MAX_DEPTH = 64;
    private static final int SHOWN = 40;

    static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(100)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
                    .build())
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
            .build();

    private ResponseFormatReader() {}

    static ResponseFormat read(String json) {
        JsonNode format = parse(json);
        requireObject("response_format", format);
        return switch (type(format)) {
            case "text" -> {
                requireOnly("response_format", format, Set.of("type"));
                yield ResponseFormat.TEXT;
            }
            case "json_object" -> {
                requireOnly("response_format", format, Set.of("type"));
                yield new ResponseFormat.JsonObject();
            }
            case "json_schema" -> {
                requireOnly("response_format", format, Set.of("type", "json_schema"));
                yield new ResponseFormat.JsonSchema(schema(format.path("json_schema")));
            }
            default -> throw invalid("response_format.type", "text, json_object or json_schema", shown(format.path("type")));
        };
    }

    private static JsonNode parse(String json) {
        if (json.length() > MAX_CHARACTERS) {
            throw invalid("response_format", "at most " + MAX_CHARACTERS + " characters", String.valueOf(json.length()));
        }
        try {
            return MAPPER.readTree(json);
        } catch (JacksonException e) {
            // The parser's own words may quote what the request says.
            throw invalid("response_format", "one JSON object, nested at most " + MAX_DEPTH + " deep, keys once",
                    "other text" + at(e));
        }
    }

    private static String at(JacksonException e) {
        return e.getLocation() == null ? "" : " at character " + e.getLocation().getCharOffset();
    }

    private static String type(JsonNode format) {
        return format.path("type").isTextual() ? format.path("type").textValue() : "";
    }

    private static String schema(JsonNode wrapper) {
        requireObject("response_format.json_schema", wrapper);
        requireOnly("response_format.json_schema", wrapper, Set.of("name", "description", "schema", "strict"));
        for (String text : new String[] {"name", "description"}) {
            if (wrapper.has(text) && !wrapper.get(text).isTextual()) {
                throw invalid("response_format.json_schema." + text, "a string", shown(wrapper.get(text)));
            }
        }
        if (wrapper.has("strict") && !wrapper.get("strict").isBoolean() && !wrapper.get("strict").isNull()) {
            throw invalid("response_format.json_schema.strict", "true or false", shown(wrapper.get("strict")));
        }
        requireObject("response_format.json_schema.schema", wrapper.path("schema"));
        return wrapper.get("schema").toString();
    }

    private static void requireObject(String where, @Nullable JsonNode node) {
        if (node == null || !node.isObject()) {
            throw invalid(where, "a JSON object", shown(node));
        }
    }

    private static void requireOnly(String where, JsonNode object, Set<String> known) {
        Iterator<String> names = object.fieldNames();
        while (names.hasNext()) {
            String name = names.next();
            if (!known.contains(name)) {
                throw invalid(where, "no keys but " + String.join(", ", known.stream().sorted().toList()),
                        '"' + cut(name) + '"');
            }
        }
    }

    private static String shown(@Nullable JsonNode node) {
        if (node == null || node.isMissingNode()) {
            return "nothing";
        }
        return node.isTextual() ? '"' + cut(node.textValue()) + '"' : cut(node.toString());
    }

    private static String cut(String text) {
        String line = text.replaceAll("\\p{Cntrl}", "?");
        return line.length() <= SHOWN ? line : line.substring(0, SHOWN) + "…";
    }

    private static InvalidRequestException invalid(String where, String expected, String got) {
        return new InvalidRequestException("RESPONSE_FORMAT", "%s: expected %s, got %s; see docs/formats.md"
                .formatted(where, expected, got));
    }
}

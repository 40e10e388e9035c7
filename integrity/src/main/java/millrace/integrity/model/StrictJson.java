package millrace.integrity.model;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;

/// JSON that somebody signed, read so that no other parser can read it otherwise: UTF-8 only, no key twice, bounded depth
/// and length, nothing after the value.
final class StrictJson {
    /// The most bytes of a document.
    static final int MAX_BYTES = 16 << 20;

    private static final int MAX_DEPTH = 16;
    private static final ObjectMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(64)
                            .maxNameLength(4096)
                            .maxStringLength(MAX_BYTES)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
                    .build())
            .build();
    private static final ObjectReader READER =
            MAPPER.readerFor(JsonNode.class).with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private final String where;
    private final String code;
    private final JsonNode node;

    private StrictJson(String where, String code, JsonNode node) {
        this.where = where;
        this.code = code;
        this.node = node;
    }

    /// For what this package writes.
    static ObjectMapper mapper() {
        return MAPPER;
    }

    /// The object that the document holds.
    ///
    /// @param where names the document in messages
    /// @param code of every refusal
    static StrictJson object(byte[] bytes, String where, String code) {
        if (bytes.length > MAX_BYTES) {
            throw new IntegrityException(code,
                    "%s: expected at most %d bytes, got %d".formatted(where, MAX_BYTES, bytes.length));
        }
        JsonNode node;
        try {
            node = READER.readValue(StandardCharsets.UTF_8
                    .newDecoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .onUnmappableCharacter(CodingErrorAction.REPORT)
                    .decode(ByteBuffer.wrap(bytes))
                    .toString());
        } catch (CharacterCodingException e) {
            throw new IntegrityException(code, where + ": expected UTF-8, got other bytes; fetch it again", e);
        } catch (JsonProcessingException e) {
            throw new IntegrityException(code,
                    where + ": expected strict JSON, got: " + oneLine(e) + "; fetch it again", e);
        }
        if (node == null || !node.isObject()) {
            throw new IntegrityException(code, where + ": expected a JSON object, got another value; fetch it again");
        }
        return new StrictJson(where, code, node);
    }

    private static String oneLine(JsonProcessingException e) {
        // What follows in brackets is for programmers.
        String what = Shown.text(e.getOriginalMessage().replaceAll("\\s+", " ").replaceAll(" \\((?:of type|start marker) .*", ""));
        var at = e.getLocation();
        return at == null ? what : what + " at line " + at.getLineNr() + ", column " + at.getColumnNr();
    }

    /// Whether the object has the field, with any value but null.
    boolean has(String field) {
        return node.hasNonNull(field);
    }

    StrictJson object(String field) {
        JsonNode value = node.path(field);
        if (!value.isObject()) {
            throw wrong(field, "an object");
        }
        return new StrictJson(where + ": " + field, code, value);
    }

    String text(String field) {
        JsonNode value = node.path(field);
        if (!value.isTextual()) {
            throw wrong(field, "a string");
        }
        return value.textValue();
    }

    boolean flag(String field) {
        JsonNode value = node.path(field);
        if (!value.isBoolean()) {
            throw wrong(field, "true or false");
        }
        return value.booleanValue();
    }

    long number(String field) {
        JsonNode value = node.path(field);
        if (!value.isIntegralNumber() || !value.canConvertToLong()) {
            throw wrong(field, "a whole number");
        }
        return value.longValue();
    }

    /// The objects of an array.
    StrictJson[] objects(String field) {
        JsonNode array = array(field);
        StrictJson[] objects = new StrictJson[array.size()];
        for (int i = 0; i < objects.length; i++) {
            if (!array.get(i).isObject()) {
                throw wrong(field, "an array of objects");
            }
            objects[i] = new StrictJson(where + ": " + field + "[" + i + "]", code, array.get(i));
        }
        return objects;
    }

    /// The strings of an array.
    String[] texts(String field) {
        JsonNode array = array(field);
        String[] texts = new String[array.size()];
        for (int i = 0; i < texts.length; i++) {
            if (!array.get(i).isTextual()) {
                throw wrong(field, "an array of strings");
            }
            texts[i] = array.get(i).textValue();
        }
        return texts;
    }

    private JsonNode array(String field) {
        JsonNode array = node.path(field);
        if (!array.isArray()) {
            throw wrong(field, "an array");
        }
        return array;
    }

    private IntegrityException wrong(String field, String expected) {
        JsonNode value = node.path(field);
        String got = value.isMissingNode() ? "none" : value.getNodeType().name().toLowerCase(java.util.Locale.ROOT);
        return problem(field + ": expected " + expected + ", got " + got);
    }

    /// A refusal of this object.
    ///
    /// @param what expected and got, and what to do
    IntegrityException problem(String what) {
        return new IntegrityException(code, where + ": " + what);
    }

    String where() {
        return where;
    }
}

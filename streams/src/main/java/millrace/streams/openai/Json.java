package millrace.streams.openai;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/// JSON as it comes from outside, read strictly and within limits, and as it goes out.
public final class Json {
    private static final int MAX_DEPTH = 64;
    private static final int MAX_NUMBER_CHARS = 64;
    private static final int MAX_NAME_CHARS = 1_024;
    private static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(MAX_NUMBER_CHARS)
                            .maxNameLength(MAX_NAME_CHARS)
                            .maxStringLength(Integer.MAX_VALUE)
                            .build())
                    .build())
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .build();
    private static final ObjectReader READER =
            MAPPER.readerFor(JsonNode.class).with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private Json() {}

    public static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    /// Reads one object, whose size the caller has bounded.
    ///
    /// @throws ApiException 400 `invalid_json` if the bytes are not UTF-8, not strict JSON, too deep, or no object
    public static ObjectNode read(byte[] bytes) {
        JsonNode node;
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            node = READER.readValue(text);
        } catch (CharacterCodingException e) {
            throw ApiException.invalid("invalid_json", null, "expected UTF-8, got other bytes");
        } catch (JsonProcessingException e) {
            // Jackson's own message may quote what was sent.
            var at = e.getLocation();
            throw ApiException.invalid("invalid_json", null, "expected strict JSON without repeated names, at most " + MAX_DEPTH
                    + " levels deep; it is not at " + (at == null ? "its end" : "line " + at.getLineNr() + ", column " + at.getColumnNr()));
        }
        if (node instanceof ObjectNode object) {
            return object;
        }
        throw ApiException.invalid("invalid_json", null, "expected a JSON object, got " + kind(node));
    }

    public static String write(JsonNode node) {
        try {
            return MAPPER.writeValueAsString(node);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of JSON nodes can be written", e);
        }
    }

    public static byte[] bytes(JsonNode node) {
        return write(node).getBytes(StandardCharsets.UTF_8);
    }

    /// What a value is, without its content.
    static String kind(JsonNode node) {
        return switch (node.getNodeType()) {
            case OBJECT -> "an object";
            case ARRAY -> "an array";
            case STRING -> "a string";
            case NUMBER -> "the number " + node.asText();
            case BOOLEAN -> node.asText();
            case NULL -> "null";
            case BINARY, MISSING, POJO -> "nothing";
        };
    }
}

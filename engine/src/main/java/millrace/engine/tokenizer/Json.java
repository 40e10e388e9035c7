package millrace.engine.tokenizer;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import millrace.engine.InvalidModelException;
import org.jspecify.annotations.Nullable;

/// JSON files of a checkpoint, read with limits on size, depth, and lengths; duplicate keys are refused.
final class Json {
    static final int MAX_FILE_BYTES = 64 << 20;
    private static final int MAX_STRING = 1 << 20;
    private static final int MAX_NAME = 1 << 16;
    private static final int MAX_DEPTH = 32;

    private static final JsonMapper MAPPER = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxStringLength(MAX_STRING)
                            .maxNameLength(MAX_NAME)
                            .maxNumberLength(64)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
                    .build())
            .build();

    private Json() {}

    /// What is done with a parser that stands before the document.
    @FunctionalInterface
    interface Reader<T> {
        T read(JsonParser parser) throws IOException;
    }

    /// @throws InvalidModelException TOK_LIMIT, TOK_INVALID
    static <T> T read(String file, byte[] bytes, Reader<T> reader) {
        if (bytes.length > MAX_FILE_BYTES) {
            throw new InvalidModelException(
                    "TOK_LIMIT",
                    "%s: size: expected at most %d bytes, got %d".formatted(file, MAX_FILE_BYTES, bytes.length));
        }
        try (JsonParser parser = MAPPER.createParser(text(file, bytes))) {
            T result = reader.read(parser);
            if (parser.nextToken() != null) {
                throw new InvalidModelException("TOK_INVALID", file + ": JSON: expected one value, got more after it");
            }
            return result;
        } catch (StreamConstraintsException e) {
            throw new InvalidModelException(
                    "TOK_LIMIT",
                    "%s: JSON: expected sizes within limits, got: %s".formatted(file, e.getOriginalMessage()),
                    e);
        } catch (IOException e) {
            String message = e instanceof JacksonException j ? j.getOriginalMessage() : e.getMessage();
            throw new InvalidModelException(
                    "TOK_INVALID", "%s: JSON: expected well-formed JSON, got: %s".formatted(file, message), e);
        }
    }

    private static String text(String file, byte[] bytes) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException e) {
            throw new InvalidModelException(
                    "TOK_INVALID", file + ": expected UTF-8, got other bytes; is the file complete?", e);
        }
    }

    /// The document as a tree; an object.
    static JsonNode tree(String file, byte[] bytes) {
        return read(file, bytes, parser -> {
            requireObject(file, "document", parser.nextToken());
            return tree(parser);
        });
    }

    /// The value at which the parser stands.
    static JsonNode tree(JsonParser parser) throws IOException {
        return MAPPER.readTree(parser);
    }

    static void requireObject(String file, String what, @Nullable JsonToken token) {
        require(file, what, JsonToken.START_OBJECT, token);
    }

    static void require(String file, String what, JsonToken expected, @Nullable JsonToken token) {
        if (token != expected) {
            throw new InvalidModelException(
                    "TOK_INVALID", "%s: %s: expected %s, got %s".formatted(file, what, name(expected), name(token)));
        }
    }

    private static String name(@Nullable JsonToken token) {
        return switch (token) {
            case null -> "the end";
            case START_OBJECT -> "an object";
            case START_ARRAY -> "an array";
            case END_ARRAY -> "the end of the array";
            case VALUE_STRING -> "a string";
            case VALUE_NUMBER_INT -> "an integer";
            case VALUE_NUMBER_FLOAT -> "a fraction";
            default -> "the token " + token;
        };
    }
}

package millrace.engine.weights;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import millrace.engine.InvalidModelException;

/// JSON of a checkpoint's small files, read strictly: UTF-8 only, no duplicate keys, bounded depth, nothing after the
/// value.
public final class JsonFiles {
    private static final int MAX_DEPTH = 64;
    private static final ObjectReader READER = new ObjectMapper(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder()
                            .maxNestingDepth(MAX_DEPTH)
                            .maxNumberLength(64)
                            .build())
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .build())
            .readerFor(JsonNode.class)
            .with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private JsonFiles() {}

    /// The object that the file holds.
    ///
    /// @param name of the file, for messages
    /// @param code of the refusal, for example `CONFIG_JSON`
    public static JsonNode object(byte[] bytes, String name, String code) {
        JsonNode node;
        try {
            node = READER.readValue(text(bytes, name, code));
        } catch (JsonProcessingException e) {
            throw new InvalidModelException(
                    code, name + ": expected strict JSON, got: " + oneLine(e) + "; restore the file", e);
        }
        if (node == null || !node.isObject()) {
            throw new InvalidModelException(
                    code, name + ": expected a JSON object, got another value; restore the file");
        }
        return node;
    }

    private static String text(byte[] bytes, String name, String code) {
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .onUnmappableCharacter(CodingErrorAction.REPORT)
                    .decode(ByteBuffer.wrap(bytes))
                    .toString();
        } catch (CharacterCodingException e) {
            throw new InvalidModelException(code, name + ": expected UTF-8, got other bytes; restore the file", e);
        }
    }

    /// What a parser found wrong and where, without the file's text.
    static String oneLine(JsonProcessingException e) {
        var where = e.getLocation();
        String what = e.getOriginalMessage().replaceAll("\\s+", " ");
        if (what.length() > 160) {
            what = what.substring(0, 160) + "...";
        }
        return where == null ? what : what + " at line " + where.getLineNr() + ", column " + where.getColumnNr();
    }
}

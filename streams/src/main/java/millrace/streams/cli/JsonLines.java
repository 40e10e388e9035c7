package millrace.streams.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Files with one JSON object a line, read whole and strictly; every complaint names file and line.
final class JsonLines {
    private static final JsonMapper MAPPER = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .disable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
            .build();
    private static final ObjectReader READER =
            MAPPER.readerFor(JsonNode.class).with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private JsonLines() {}

    /// One line.
    ///
    /// @param where file and line, for messages
    record Line(String where, JsonNode json) {
        /// The line's `id`, any JSON scalar; null without one.
        JsonNode id() {
            JsonNode id = json.get("id");
            if (id != null && id.isContainerNode()) {
                throw wrong("id", "a string or number", id);
            }
            return id == null ? NullNode.getInstance() : id;
        }

        @Nullable String text(String field) {
            JsonNode value = value(field);
            if (value == null) {
                return null;
            }
            if (!value.isTextual()) {
                throw wrong(field, "a string", value);
            }
            return value.textValue();
        }

        int integer(String field, int missing) {
            JsonNode value = value(field);
            if (value == null) {
                return missing;
            }
            if (!value.isIntegralNumber() || !value.canConvertToInt()) {
                throw wrong(field, "a whole number of 32 bits", value);
            }
            return value.intValue();
        }

        long longInteger(String field, long missing) {
            JsonNode value = value(field);
            if (value == null) {
                return missing;
            }
            if (!value.isIntegralNumber() || !value.canConvertToLong()) {
                throw wrong(field, "a whole number of 64 bits", value);
            }
            return value.longValue();
        }

        float number(String field, float missing) {
            JsonNode value = value(field);
            if (value == null) {
                return missing;
            }
            if (!value.isNumber()) {
                throw wrong(field, "a number", value);
            }
            return value.floatValue();
        }

        @Nullable Boolean flag(String field) {
            JsonNode value = value(field);
            if (value == null) {
                return null;
            }
            if (!value.isBoolean()) {
                throw wrong(field, "true or false", value);
            }
            return value.booleanValue();
        }

        /// The ids of a field, or null without it.
        @Nullable List<Integer> ids(String field) {
            JsonNode value = value(field);
            return value == null ? null : JsonLines.ids(value, where + ": " + field);
        }

        /// The same line with these fields where it has none of their names.
        Line withMissing(JsonNode fields) {
            ObjectNode all = MAPPER.createObjectNode();
            all.setAll((ObjectNode) json);
            fields.properties().forEach(field -> all.putIfAbsent(field.getKey(), field.getValue()));
            return new Line(where, all);
        }

        /// The field's value; absent and null are the same.
        @Nullable JsonNode value(String field) {
            JsonNode value = json.get(field);
            return value == null || value.isNull() ? null : value;
        }

        IllegalArgumentException wrong(String field, String expected, JsonNode got) {
            return problem(field + ": expected " + expected + ", got " + kind(got));
        }

        IllegalArgumentException problem(String message) {
            return new IllegalArgumentException(where + ": " + message);
        }
    }

    /// All lines that are not blank.
    ///
    /// @param file path, or `-` for standard input
    static List<Line> read(String file) throws IOException {
        List<Line> lines = new ArrayList<>();
        String name = file.equals("-") ? "standard input" : file;
        try (BufferedReader reader = open(file)) {
            int number = 0;
            for (String text = reader.readLine(); text != null; text = reader.readLine()) {
                number++;
                if (!text.isBlank()) {
                    String where = name + ": line " + number;
                    lines.add(new Line(where, object(text, where)));
                }
            }
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(name + ": line " + (lines.size() + 1) + " or later: expected UTF-8, got "
                    + "other bytes; save the file as UTF-8", e);
        }
        return lines;
    }

    /// The same of lines that are there, none of them blank.
    static List<Line> of(List<String> texts, String name) {
        List<Line> lines = new ArrayList<>();
        for (String text : texts) {
            String where = name + ": line " + (lines.size() + 1);
            lines.add(new Line(where, object(text, where)));
        }
        return lines;
    }

    private static BufferedReader open(String file) throws IOException {
        var decoder = StandardCharsets.UTF_8
                .newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT);
        if (file.equals("-")) {
            return new BufferedReader(new InputStreamReader(System.in, decoder));
        }
        Path path = Path.of(file);
        if (!Files.isReadable(path) || Files.isDirectory(path)) {
            throw new IllegalArgumentException(
                    file + ": expected a readable file, got none; check the path, or use - for standard input");
        }
        return new BufferedReader(new InputStreamReader(Files.newInputStream(path), decoder));
    }

    private static JsonNode object(String text, String where) {
        JsonNode node = parse(text, where);
        if (!node.isObject()) {
            throw new IllegalArgumentException(where + ": expected a JSON object, got " + kind(node));
        }
        return node;
    }

    /// A whole file with one JSON value.
    static JsonNode file(Path file) throws IOException {
        if (!Files.isReadable(file) || Files.isDirectory(file)) {
            throw new IllegalArgumentException(file + ": expected a readable file, got none; check the path");
        }
        return parse(Files.readString(file), file.toString());
    }

    private static JsonNode parse(String text, String where) {
        try {
            return READER.readValue(text);
        } catch (JsonProcessingException e) {
            // What follows in brackets is for programmers.
            String what = e.getOriginalMessage().replaceAll("\\s+", " ").replaceAll(" \\(.*", "");
            throw new IllegalArgumentException(where + ", column "
                    + (e.getLocation() == null ? 1 : e.getLocation().getColumnNr()) + ": expected strict JSON, got: "
                    + what.substring(0, Math.min(200, what.length())), e);
        }
    }

    static List<Integer> ids(JsonNode value, String where) {
        if (!value.isArray()) {
            throw new IllegalArgumentException(where + ": expected an array of token ids, got " + kind(value));
        }
        List<Integer> ids = new ArrayList<>(value.size());
        for (JsonNode id : value) {
            if (!id.isIntegralNumber() || !id.canConvertToInt()) {
                throw new IllegalArgumentException(
                        where + ": expected whole numbers of 32 bits, got " + kind(id) + " as id " + ids.size());
            }
            ids.add(id.intValue());
        }
        return ids;
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

    static JsonMapper mapper() {
        return MAPPER;
    }
}

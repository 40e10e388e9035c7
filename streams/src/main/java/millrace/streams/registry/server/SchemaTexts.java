package millrace.streams.registry.server;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.SchemaCompatibilityType;
import org.jspecify.annotations.Nullable;

/// Schemas that come from outside: parsed within limits, and checked before a record is read with them.
public final class SchemaTexts {
    /// Levels of JSON in a schema text; ours have about ten.
    private static final int MAX_JSON_DEPTH = 200;

    private static final int MAX_TEXT = 1 << 20;
    private static final int MAX_SCHEMA_DEPTH = 64;

    private static final JsonFactory JSON = JsonFactory.builder()
            .streamReadConstraints(
                    StreamReadConstraints.builder().maxNestingDepth(MAX_JSON_DEPTH).build())
            .build();

    private SchemaTexts() {}

    /// Parses an Avro schema; `references` are the texts of named types it uses, in order of need.
    public static Schema parse(String text, List<String> references) throws IOException {
        Schema.Parser parser = new Schema.Parser();
        try {
            for (String reference : references) {
                checkShape(reference);
                parser.parse(reference);
            }
            checkShape(text);
            return parser.parse(text);
        } catch (RuntimeException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    // Avro's parser recurses with the text; the depth is checked before it runs.
    private static void checkShape(String text) throws IOException {
        if (text.length() > MAX_TEXT) {
            throw new IOException(
                    "schema text: expected at most %d characters, got %d".formatted(MAX_TEXT, text.length()));
        }
        if (text.isBlank()) {
            throw new IOException("schema text is empty");
        }
        if (text.strip().chars().allMatch(c -> Character.isJavaIdentifierPart(c) || c == '.')) {
            return; // the short form of a primitive: string
        }
        try (JsonParser parser = JSON.createParser(text)) {
            while (parser.nextToken() != null) {
                // Reading all tokens is the check.
            }
        }
    }

    /// Why records written with `writer` must not be read as `reader`, or null when they may.
    public static @Nullable String whyForeign(Schema reader, Schema writer) {
        if (!reader.getFullName().equals(writer.getFullName())) {
            return "expected a schema of %s, got one of %s"
                    .formatted(reader.getFullName(), quote(writer.getFullName(), 200));
        }
        String shape = whyUnsafe(writer, Collections.newSetFromMap(new IdentityHashMap<>()), 0);
        if (shape != null) {
            return shape;
        }
        var result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
        if (result.getType() != SchemaCompatibilityType.COMPATIBLE) {
            var first = result.getResult().getIncompatibilities().getFirst();
            return "%s at %s: %s".formatted(first.getType(), first.getLocation(), quote(first.getMessage(), 200));
        }
        return null;
    }

    /* Fields that the reader does not know are skipped by recursion over the writer's schema, and items of no bytes
     * cost time without costing the sender anything; neither occurs in a schema of ours. */
    private static @Nullable String whyUnsafe(Schema schema, Set<Schema> path, int depth) {
        if (depth > MAX_SCHEMA_DEPTH) {
            return "the schema is nested more than %d deep".formatted(MAX_SCHEMA_DEPTH);
        }
        List<Schema> inner =
                switch (schema.getType()) {
                    case RECORD -> schema.getFields().stream().map(Schema.Field::schema).toList();
                    case ARRAY -> List.of(schema.getElementType());
                    case MAP -> List.of(schema.getValueType());
                    case UNION -> schema.getTypes();
                    default -> List.of();
                };
        if (inner.isEmpty()) {
            return null;
        }
        if (!path.add(schema)) {
            return "the schema contains itself (%s)".formatted(quote(schema.getName(), 100));
        }
        for (Schema s : inner) {
            String why = whyUnsafe(s, path, depth + 1);
            if (why != null) {
                return why;
            }
        }
        path.remove(schema);
        if (schema.getType() == Schema.Type.ARRAY && isEmptyOnTheWire(schema.getElementType())) {
            return "the schema has an array whose items take no bytes";
        }
        return null;
    }

    private static boolean isEmptyOnTheWire(Schema schema) {
        return switch (schema.getType()) {
            case NULL -> true;
            case FIXED -> schema.getFixedSize() == 0;
            case RECORD -> schema.getFields().stream().allMatch(f -> isEmptyOnTheWire(f.schema()));
            default -> false;
        };
    }

    /// Text from outside, fit for a one-line message: control characters replaced, cut at `limit`.
    public static String quote(@Nullable String text, int limit) {
        if (text == null) {
            return "(none)";
        }
        StringBuilder line = new StringBuilder(Math.min(text.length(), limit));
        for (int i = 0; i < text.length() && i < limit; i++) {
            char c = text.charAt(i);
            line.append(Character.isISOControl(c) || c == 0x2028 || c == 0x2029 ? ' ' : c);
        }
        return text.length() > limit ? line.append("...").toString() : line.toString();
    }
}

package millrace.streams.registry.server;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.StreamReadConstraints;
import java.io.IOException;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
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
    private static final int MAX_FREE_VALUES = 100;

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
        try {
            new Cost().of(writer, 0);
        } catch (Unsafe e) {
            return e.getMessage();
        }
        var result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer);
        if (result.getType() != SchemaCompatibilityType.COMPATIBLE) {
            var first = result.getResult().getIncompatibilities().getFirst();
            return "%s at %s: %s".formatted(first.getType(), first.getLocation(), quote(first.getMessage(), 200));
        }
        return null;
    }

    /* Fields that the reader does not know are skipped by recursion over the writer's schema, and values of no bytes
     * cost time without costing the sender anything; schemas of ours have no recursion and next to none of these.
     * Every schema is looked at once: named types may be used twice on every level, which unfolds to 2^levels. */
    private static final class Cost {
        private final Map<Schema, Cost.Of> known = new IdentityHashMap<>();
        private final Set<Schema> open = Collections.newSetFromMap(new IdentityHashMap<>());

        /// Levels below a schema, the most values of no bytes that one value of it unfolds to, and whether it is one.
        private record Of(int levels, long free, boolean empty) {}

        Of of(Schema schema, int depth) {
            Of cost = known.get(schema);
            if (cost == null) {
                if (depth > MAX_SCHEMA_DEPTH) {
                    throw tooDeep();
                }
                if (!open.add(schema)) {
                    throw new Unsafe("the schema contains itself (%s)".formatted(quote(schema.getName(), 100)));
                }
                cost = compute(schema, depth);
                open.remove(schema);
                known.put(schema, cost);
            }
            if (depth + cost.levels > MAX_SCHEMA_DEPTH) {
                throw tooDeep();
            }
            if (cost.free > MAX_FREE_VALUES) {
                throw new Unsafe("the schema has more than %d values that take no bytes".formatted(MAX_FREE_VALUES));
            }
            return cost;
        }

        private Of compute(Schema schema, int depth) {
            return switch (schema.getType()) {
                case NULL -> new Of(0, 1, true);
                case FIXED -> new Of(0, schema.getFixedSize() == 0 ? 1 : 0, schema.getFixedSize() == 0);
                case RECORD -> {
                    Of sum = new Of(0, schema.getFields().isEmpty() ? 1 : 0, true);
                    for (Schema.Field field : schema.getFields()) {
                        Of inner = of(field.schema(), depth + 1);
                        int levels = Math.max(sum.levels, inner.levels + 1);
                        sum = new Of(levels, sum.free + inner.free, sum.empty && inner.empty);
                    }
                    yield sum;
                }
                case ARRAY -> {
                    Of items = of(schema.getElementType(), depth + 1);
                    if (items.empty) {
                        throw new Unsafe("the schema has an array whose items take no bytes");
                    }
                    yield new Of(items.levels + 1, 0, false);
                }
                case MAP -> new Of(of(schema.getValueType(), depth + 1).levels + 1, 0, false);
                case UNION -> {
                    Of most = new Of(0, 0, false);
                    for (Schema branch : schema.getTypes()) {
                        Of inner = of(branch, depth + 1);
                        // The index is a byte that pays for a null.
                        long free = branch.getType() == Schema.Type.NULL ? 0 : inner.free;
                        most = new Of(Math.max(most.levels, inner.levels + 1), Math.max(most.free, free), false);
                    }
                    yield most;
                }
                default -> new Of(0, 0, false);
            };
        }

        private static Unsafe tooDeep() {
            return new Unsafe("the schema is nested more than %d deep".formatted(MAX_SCHEMA_DEPTH));
        }
    }

    private static final class Unsafe extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Unsafe(String message) {
            super(message, null, false, false);
        }
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

package millrace.streams.registry.server;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.Incompatibility;

/// What a new version of a subject must be able to read, or be read by.
enum Compatibility {
    NONE(false, false, false),
    BACKWARD(true, false, false),
    BACKWARD_TRANSITIVE(true, false, true),
    FORWARD(false, true, false),
    FORWARD_TRANSITIVE(false, true, true),
    FULL(true, true, false),
    FULL_TRANSITIVE(true, true, true);

    private final boolean backward;
    private final boolean forward;
    private final boolean transitive;

    Compatibility(boolean backward, boolean forward, boolean transitive) {
        this.backward = backward;
        this.forward = forward;
        this.transitive = transitive;
    }

    static Compatibility of(String name) {
        for (Compatibility level : values()) {
            if (level.name().equals(name.toUpperCase(Locale.ROOT))) {
                return level;
            }
        }
        throw new RegistryError(422, 42203, "Invalid compatibility level. Valid values are none, backward, forward,"
                + " full, backward_transitive, forward_transitive, and full_transitive");
    }

    boolean isTransitive() {
        return transitive;
    }

    /// Why `next` may not follow `earlier` (oldest first); empty when it may.
    List<String> violations(Schema next, List<Schema> earlier) {
        List<Schema> checked =
                transitive || earlier.isEmpty() ? earlier : List.of(earlier.get(earlier.size() - 1));
        List<String> violations = new ArrayList<>();
        for (Schema old : checked) {
            if (backward) {
                describe("the new schema cannot read what was written with the old one", next, old, violations);
            }
            if (forward) {
                describe("the old schema cannot read what is written with the new one", old, next, violations);
            }
        }
        return violations;
    }

    private static void describe(String what, Schema reader, Schema writer, List<String> violations) {
        for (Incompatibility i : SchemaCompatibility.checkReaderWriterCompatibility(reader, writer)
                .getResult()
                .getIncompatibilities()) {
            violations.add("%s: %s at %s: %s".formatted(what, i.getType(), i.getLocation(), i.getMessage()));
        }
    }
}

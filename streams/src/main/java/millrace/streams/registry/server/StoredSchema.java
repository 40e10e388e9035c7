package millrace.streams.registry.server;

import java.util.List;

/// One version of a subject as it is kept.
record StoredSchema(String subject, int version, int id, String schema, List<Reference> references, boolean deleted) {
    StoredSchema {
        references = List.copyOf(references);
    }

    /// A named type that the schema uses, and the subject and version that define it.
    record Reference(String name, String subject, int version) {}

    boolean hasText(String text, List<Reference> references) {
        return schema.equals(text) && this.references.equals(references);
    }

    StoredSchema asDeleted() {
        return new StoredSchema(subject, version, id, schema, references, true);
    }
}

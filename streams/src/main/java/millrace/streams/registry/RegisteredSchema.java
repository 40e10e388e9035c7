package millrace.streams.registry;

import org.apache.avro.Schema;

/// One version of a subject: `version` counts from 1 within the subject, `id` is the registry's own.
public record RegisteredSchema(String subject, int version, int id, Schema schema) {
    public RegisteredSchema {
        if (version < 1) {
            throw new IllegalArgumentException("version: expected at least 1, got " + version);
        }
    }
}

package millrace.schemas;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;

/// The catalogue: every record that Millrace puts on a topic, its current schema and the schema's fingerprint.
public enum Schemas {
    PROMPT(Prompt.getClassSchema()),
    COMPLETION(Completion.getClassSchema()),
    ATTESTATION(AttestationRecord.getClassSchema()),
    CHECKPOINT(CheckpointRecord.getClassSchema());

    private final Schema schema;
    private final byte[] fingerprint;

    Schemas(Schema schema) {
        this.schema = schema;
        this.fingerprint = fingerprint(schema);
    }

    public Schema schema() {
        return schema;
    }

    /// Name of the record with its namespace.
    public String fullName() {
        return schema.getFullName();
    }

    /// SHA-256 of the schema's Parsing Canonical Form, 32 bytes; part of every audit leaf's hash.
    public byte[] fingerprint() {
        return fingerprint.clone();
    }

    /// The fingerprint as 64 hexadecimal digits.
    public String fingerprintHex() {
        return HexFormat.of().formatHex(fingerprint);
    }

    /// SHA-256 of any schema's Parsing Canonical Form, 32 bytes.
    public static byte[] fingerprint(Schema schema) {
        try {
            return MessageDigest.getInstance("SHA-256")
                    .digest(SchemaNormalization.toParsingForm(schema).getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("SHA-256 is part of every Java platform", e);
        }
    }

    /// The current schema of the record with this full name.
    public static Optional<Schemas> byFullName(String fullName) {
        return Arrays.stream(values()).filter(entry -> entry.fullName().equals(fullName)).findFirst();
    }

    public static List<Schemas> all() {
        return List.of(values());
    }
}

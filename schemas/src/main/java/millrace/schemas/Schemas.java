package millrace.schemas;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
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
    CHECKPOINT(CheckpointRecord.getClassSchema()),
    ALARM(AlarmRecord.getClassSchema()),
    CONTROL(Control.getClassSchema()),
    SALT(SaltRecord.getClassSchema()),
    DELTA(Delta.getClassSchema());

    /// Directories of released schemas, newest first.
    private static final List<String> RELEASES = List.of("v4", "v3", "v2", "v1");
    /// Files that others name, in the order in which they can be parsed.
    private static final List<String> SHARED = List.of("Hash", "FinishReason", "Sampling", "ToolCall");

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

    /// The current schema and every other that this record was released with, newest first: what is on a topic was
    /// written under one of them.
    public List<Schema> versions() {
        List<Schema> versions = new ArrayList<>(List.of(schema));
        for (String release : RELEASES) {
            released(release)
                    .filter(old -> versions.stream().noneMatch(known -> Arrays.equals(fingerprint(known), fingerprint(old))))
                    .ifPresent(versions::add);
        }
        return List.copyOf(versions);
    }

    /// Empty for a release that did not have this record.
    private Optional<Schema> released(String release) {
        Schema.Parser parser = new Schema.Parser();
        for (String name : SHARED) {
            // A release that did not share this record had it where it was used.
            parse(parser, release, name);
        }
        return parse(parser, release, schema.getName());
    }

    private static Optional<Schema> parse(Schema.Parser parser, String release, String name) {
        String file = "frozen/" + release + "/" + name + ".avsc";
        try (InputStream in = Schemas.class.getResourceAsStream(file)) {
            return in == null ? Optional.empty() : Optional.of(parser.parse(in));
        } catch (IOException e) {
            throw new UncheckedIOException(file, e);
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

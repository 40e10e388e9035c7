package millrace.integrity;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import millrace.schemas.AttestationRecord;
import millrace.schemas.RecordModel;
import millrace.schemas.Schemas;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.specific.SpecificDatumWriter;

/// One entry of an audit log: the exact bytes of an attestation record and the RFC 6962 hash of them.
///
/// `hash = SHA-256(0x00 || "kafka-attest-leaf/v1\n" || schema fingerprint(32) || body)`, where the body is the Avro
/// binary form as it stands on the wire, without the five bytes that name a registry's schema id: ids differ between
/// clusters, the body does not. A body is hashed as received and never encoded again.
public final class Leaf {
    private static final byte[] TAG = "kafka-attest-leaf/v1\n".getBytes(StandardCharsets.US_ASCII);
    private static final int WIRE_PREFIX = 5;

    private final byte[] body;
    private final Digest hash;

    private Leaf(byte[] body, Digest hash) {
        this.body = body;
        this.hash = hash;
    }

    /// The leaf of a record under this version's schema.
    public static Leaf of(AttestationRecord record) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(1024);
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        try {
            new SpecificDatumWriter<AttestationRecord>(AttestationRecord.getClassSchema(), RecordModel.instance())
                    .write(record, encoder);
            encoder.flush();
        } catch (IOException e) {
            throw new UncheckedIOException("a byte array cannot fail", e);
        }
        byte[] body = out.toByteArray();
        return new Leaf(body, hash(Digest.of(Schemas.ATTESTATION.fingerprint()), body, 0, body.length));
    }

    /// The hash of a body that was written under the schema with this fingerprint.
    ///
    /// @param schemaFingerprint SHA-256 of the schema's Parsing Canonical Form
    public static Digest hash(Digest schemaFingerprint, byte[] body) {
        return hash(schemaFingerprint, body, 0, body.length);
    }

    /// The same of a value as it stands in a topic, of at least the five bytes before the body.
    public static Digest hashOfWire(Digest schemaFingerprint, byte[] value) {
        return hash(schemaFingerprint, value, WIRE_PREFIX, value.length - WIRE_PREFIX);
    }

    /// What the hash of a value covers after its first byte: tag, fingerprint and body.
    static byte[] entry(Digest schemaFingerprint, byte[] value) {
        return ByteBuffer.allocate(TAG.length + Digest.BYTES + value.length - WIRE_PREFIX).put(TAG)
                .put(schemaFingerprint.bytes()).put(value, WIRE_PREFIX, value.length - WIRE_PREFIX).array();
    }

    private static Digest hash(Digest schemaFingerprint, byte[] bytes, int from, int length) {
        MessageDigest sha = Digest.newSha256();
        sha.update((byte) 0);
        sha.update(TAG);
        schemaFingerprint.feed(sha);
        sha.update(bytes, from, length);
        return Digest.finish(sha);
    }

    /// The Avro binary form.
    public byte[] body() {
        return body.clone();
    }

    /// What goes to the topic: byte 0, the schema's id in the registry (4 bytes big-endian), the body.
    public byte[] wire(int schemaId) {
        return ByteBuffer.allocate(WIRE_PREFIX + body.length).put((byte) 0).putInt(schemaId).put(body).array();
    }

    public Digest hash() {
        return hash;
    }
}

package millrace.integrity.model;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.interfaces.ECPublicKey;
import java.util.Base64;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Shown;
import org.jspecify.annotations.Nullable;

/// A signature bundle as it lies beside a model: who says to have signed, the signed bytes, the signature. Nothing in it
/// is trusted yet; [SignedModel#verify] does that.
public final class ModelBundle {
    /// Name that a bundle has in a model's directory.
    public static final String FILE_NAME = "model.sig";

    static final String MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json";
    static final String PAYLOAD_TYPE = "application/vnd.in-toto+json";
    private static final String OLD_PREDICATE = "https://model_signing/Digests/v0.1";
    private static final String PARSE = "MODEL_BUNDLE_PARSE";
    private static final String UNSUPPORTED = "MODEL_BUNDLE_UNSUPPORTED";

    private final String where;
    private final Digest sha256;
    private final @Nullable String hint;
    private final @Nullable ECPublicKey key;
    private final byte[] payload;
    private final byte[] signature;

    private ModelBundle(
            String where, Digest sha256, @Nullable String hint, @Nullable ECPublicKey key, byte[] payload, byte[] signature) {
        this.where = where;
        this.sha256 = sha256;
        this.hint = hint;
        this.key = key;
        this.payload = payload;
        this.signature = signature;
    }

    /// Reads a bundle's file.
    ///
    /// @throws IntegrityException as [#parse], and `MODEL_BUNDLE_MISSING`
    public static ModelBundle read(Path file) throws IOException {
        if (!Files.exists(file)) {
            throw missing(file);
        }
        try (InputStream in = Files.newInputStream(file)) {
            return parse(in.readNBytes(StrictJson.MAX_BYTES + 1), file.toString());
        } catch (NoSuchFileException e) {
            throw missing(file);
        }
    }

    private static IntegrityException missing(Path file) {
        return new IntegrityException("MODEL_BUNDLE_MISSING",
                file + ": expected the model's signature bundle, got no file; sign the model, or say where its bundle is");
    }

    /// Takes a bundle apart.
    ///
    /// @param where names the bundle in messages
    /// @throws IntegrityException `MODEL_BUNDLE_PARSE` for what is no bundle, `MODEL_BUNDLE_UNSUPPORTED` for one that is made
    ///         in another way
    public static ModelBundle parse(byte[] bytes, String where) {
        StrictJson bundle = StrictJson.object(bytes, where, PARSE);
        String mediaType = bundle.text("mediaType");
        if (!mediaType.equals(MEDIA_TYPE)) {
            throw unsupported(where, "mediaType: expected %s, got %s; sign again with model_signing >= 1.0"
                    .formatted(MEDIA_TYPE, Shown.text(mediaType)));
        }
        StrictJson envelope = bundle.object("dsseEnvelope");
        String payloadType = envelope.text("payloadType");
        if (!payloadType.equals(PAYLOAD_TYPE)) {
            throw unsupported(where, "payloadType: expected %s, got %s; sign the model, not something else"
                    .formatted(PAYLOAD_TYPE, Shown.text(payloadType)));
        }
        StrictJson[] signatures = envelope.objects("signatures");
        if (signatures.length != 1) {
            throw unsupported(where, "signatures: expected one, got %d; sign again with one key".formatted(signatures.length));
        }
        byte[] payload = base64(envelope, "payload");
        byte[] signature = base64(signatures[0], "sig");
        refuseOld(payload, where);
        StrictJson key = publicKey(bundle, where);
        String hint = key.has("hint") ? key.text("hint") : null;
        ECPublicKey given = hint == null && key.has("rawBytes") ? given(key) : null;
        if (hint == null && given == null) {
            throw key.problem("expected a hint or rawBytes, got neither; sign again");
        }
        if (hint != null && !hint.matches("[0-9a-f]{64}")) {
            throw key.problem("hint: expected 64 lower-case hexadecimal digits, got \"%s\"; sign again"
                    .formatted(Shown.text(hint)));
        }
        return new ModelBundle(where, Digest.sha256(bytes), hint, given, payload, signature);
    }

    private static StrictJson publicKey(StrictJson bundle, String where) {
        StrictJson material = bundle.object("verificationMaterial");
        boolean key = material.has("publicKey");
        boolean chain = material.has("x509CertificateChain");
        boolean certificate = material.has("certificate");
        if ((key ? 1 : 0) + (chain ? 1 : 0) + (certificate ? 1 : 0) != 1) {
            throw material.problem("expected one of publicKey, x509CertificateChain and certificate, got "
                    + (key || chain || certificate ? "several" : "none") + "; sign again");
        }
        if (!key) {
            throw unsupported(where, "expected a signature by a public key, got the method %s, which needs more than a key to check; sign with model_signing sign key, or millrace model sign"
                    .formatted(chain ? "certificate" : "sigstore"));
        }
        if (material.has("tlogEntries") && material.objects("tlogEntries").length > 0) {
            throw unsupported(where, "tlogEntries: expected none beside a public key, got some; sign again with a key");
        }
        return material.object("publicKey");
    }

    /// What version 0.2 of the tool wrote looks alike but is signed over other bytes: the advice is worth a look ahead.
    private static void refuseOld(byte[] payload, String where) {
        if (new String(payload, StandardCharsets.UTF_8).contains(OLD_PREDICATE)) {
            throw unsupported(where, "predicateType: expected %s, got %s of model_signing 0.2; sign again with model_signing >= 1.0"
                    .formatted(ModelStatement.PREDICATE_TYPE, OLD_PREDICATE));
        }
    }

    private static ECPublicKey given(StrictJson key) {
        String pem = new String(base64(key, "rawBytes"), StandardCharsets.UTF_8);
        return EcKeys.parse(pem, key.where() + ": rawBytes", PARSE);
    }

    /// Both alphabets are in use for envelopes.
    private static byte[] base64(StrictJson object, String field) {
        String text = object.text(field);
        boolean url = text.indexOf('-') >= 0 || text.indexOf('_') >= 0;
        try {
            byte[] bytes = (url ? Base64.getUrlDecoder() : Base64.getDecoder()).decode(text);
            if (bytes.length > 0) {
                return bytes;
            }
        } catch (IllegalArgumentException e) {
            throw new IntegrityException(PARSE, object.where() + ": " + field + ": expected base64, got other text; sign again", e);
        }
        throw object.problem(field + ": expected base64, got nothing; sign again");
    }

    private static IntegrityException unsupported(String where, String what) {
        return new IntegrityException(UNSUPPORTED, where + ": " + what);
    }

    /// Names the bundle in messages.
    String where() {
        return where;
    }

    /// Of the bundle's file.
    public Digest sha256() {
        return sha256;
    }

    /// Digest of the PEM text of the key that is said to have signed, 64 hexadecimal digits.
    public String hint() {
        if (hint != null) {
            return hint;
        }
        if (key == null) {
            throw new IllegalStateException("a bundle has a hint or a key");
        }
        return EcKeys.hint(key);
    }

    /// The signed bytes.
    byte[] payload() {
        return payload.clone();
    }

    byte[] signature() {
        return signature.clone();
    }

    /// The bytes that the signature is over: type and payload, each with its length in decimal.
    byte[] signedBytes() {
        return signedBytes(payload);
    }

    static byte[] signedBytes(byte[] payload) {
        byte[] head = "DSSEv1 %d %s %d ".formatted(PAYLOAD_TYPE.length(), PAYLOAD_TYPE, payload.length)
                .getBytes(StandardCharsets.UTF_8);
        byte[] all = new byte[head.length + payload.length];
        System.arraycopy(head, 0, all, 0, head.length);
        System.arraycopy(payload, 0, all, head.length, payload.length);
        return all;
    }
}

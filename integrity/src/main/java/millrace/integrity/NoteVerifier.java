package millrace.integrity;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Base64;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/// The public half of a note key.
public final class NoteVerifier implements NoteKey {
    private static final byte[] X509_PREFIX = HexFormat.of().parseHex("302a300506032b6570032100");

    private final String name;
    private final int keyId;
    private final byte[] publicBytes;
    private final PublicKey key;

    private NoteVerifier(String name, int keyId, byte[] publicBytes) {
        this.name = name;
        this.keyId = keyId;
        this.publicBytes = publicBytes;
        byte[] encoded = ByteBuffer.allocate(44).put(X509_PREFIX).put(publicBytes).array();
        try {
            this.key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
        } catch (GeneralSecurityException e) {
            throw new IntegrityException("NOTE_KEY", "key %s: expected a point of Ed25519".formatted(name), e);
        }
    }

    static NoteVerifier of(String name, byte[] publicKey) {
        return new NoteVerifier(name, Parts.keyId(name, publicKey), publicKey.clone());
    }

    /// Reads `name+id+base64(0x01 || public key)`.
    ///
    /// @throws IntegrityException code `NOTE_KEY` if the text is not that, or the id is not the key's
    public static NoteVerifier parse(String vkey) {
        Parts parts = Parts.parse(vkey.strip(), "name+id+base64");
        int keyId = Parts.keyId(parts.name(), parts.key());
        if (keyId != parts.keyId()) {
            throw new IntegrityException("NOTE_KEY", "key %s: id: expected %08x, got %08x"
                    .formatted(Shown.text(parts.name()), keyId, parts.keyId()));
        }
        return new NoteVerifier(parts.name(), keyId, parts.key());
    }

    /// Whether `signature` over `message` was made by the private half; false also for malformed signatures.
    public boolean verify(byte[] message, byte[] signature) {
        try {
            Signature ed25519 = Signature.getInstance("Ed25519");
            ed25519.initVerify(key);
            ed25519.update(message);
            return ed25519.verify(signature);
        } catch (GeneralSecurityException malformed) {
            return false;
        }
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public int keyId() {
        return keyId;
    }

    @Override
    public String vkey() {
        byte[] blob = ByteBuffer.allocate(33).put(Parts.ED25519).put(publicBytes).array();
        return "%s+%08x+%s".formatted(name, keyId, Base64.getEncoder().encodeToString(blob));
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return other instanceof NoteVerifier that && vkey().equals(that.vkey());
    }

    @Override
    public int hashCode() {
        return keyId;
    }

    @Override
    public String toString() {
        return vkey();
    }
}

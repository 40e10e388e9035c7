package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/// The public half of a note key.
public final class NoteVerifier implements NoteKey {
    private static final byte[] X509_PREFIX = HexFormat.of().parseHex("302a300506032b6570032100");

    /// Bytes of a cosignature: the time, and an Ed25519 signature.
    static final int COSIGNATURE_BYTES = 8 + 64;

    private final String name;
    private final Kind kind;
    private final int keyId;
    private final byte[] publicBytes;
    private final PublicKey key;

    private NoteVerifier(String name, Kind kind, int keyId, byte[] publicBytes) {
        this.name = name;
        this.kind = kind;
        this.keyId = keyId;
        this.publicBytes = publicBytes;
        byte[] encoded = ByteBuffer.allocate(44).put(X509_PREFIX).put(publicBytes).array();
        try {
            this.key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
        } catch (GeneralSecurityException e) {
            throw new IntegrityException("NOTE_KEY", "key %s: expected a point of Ed25519".formatted(name), e);
        }
    }

    static NoteVerifier of(String name, Kind kind, byte[] publicKey) {
        return new NoteVerifier(name, kind, Parts.keyId(name, kind, publicKey), publicKey.clone());
    }

    /// Reads `name+id+base64(kind || public key)`.
    ///
    /// @throws IntegrityException code `NOTE_KEY` if the text is not that, or the id is not the key's
    public static NoteVerifier parse(String vkey) {
        Parts parts = Parts.parse(vkey.strip(), "name+id+base64");
        int keyId = Parts.keyId(parts.name(), parts.kind(), parts.key());
        if (keyId != parts.keyId()) {
            throw new IntegrityException("NOTE_KEY", "key %s: id: expected %08x, got %08x"
                    .formatted(Shown.text(parts.name()), keyId, parts.keyId()));
        }
        return new NoteVerifier(parts.name(), parts.kind(), keyId, parts.key());
    }

    /// Whether `signature` over the text of a note was made by the private half; false also for malformed signatures.
    ///
    /// @param signature what follows the key's id in a signature line: of a witness, the time and the signature
    public boolean verify(byte[] text, byte[] signature) {
        if (kind == Kind.LOG) {
            return opens(text, signature);
        }
        if (signature.length != COSIGNATURE_BYTES) {
            return false;
        }
        ByteBuffer in = ByteBuffer.wrap(signature);
        long seconds = in.getLong();
        return seconds >= 0 && opens(cosigned(seconds, text), Arrays.copyOfRange(signature, 8, COSIGNATURE_BYTES));
    }

    /// What a witness signs.
    static byte[] cosigned(long seconds, byte[] text) {
        byte[] head = "cosignature/v1\ntime %d\n".formatted(seconds).getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(head.length + text.length).put(head).put(text).array();
    }

    private boolean opens(byte[] message, byte[] signature) {
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
    public Kind kind() {
        return kind;
    }

    @Override
    public int keyId() {
        return keyId;
    }

    @Override
    public String vkey() {
        return Parts.text(name, keyId, kind, publicBytes);
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

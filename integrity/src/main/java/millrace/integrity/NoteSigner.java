package millrace.integrity;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.spec.NamedParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Locale;
import javax.crypto.KDF;
import javax.crypto.Mac;
import javax.crypto.spec.HKDFParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import millrace.schemas.TenantRef;

/// The private half of a note key, able to sign. Its secret never appears in [#toString()].
public final class NoteSigner implements NoteKey {
    private static final byte[] PKCS8_PREFIX = HexFormat.of().parseHex("302e020100300506032b657004220420");
    private static final String PREFIX = "PRIVATE+KEY+";

    private final NoteVerifier verifier;
    private final byte[] seed;
    private final PrivateKey key;

    private NoteSigner(String name, Kind kind, byte[] seed) {
        if (!NoteKey.isName(name)) {
            throw new IntegrityException("NOTE_KEY",
                    "key: name: expected 1 to 512 characters without spaces and +, got \"%s\""
                            .formatted(Shown.text(name)));
        }
        this.seed = seed.clone();
        try {
            byte[] encoded = ByteBuffer.allocate(48).put(PKCS8_PREFIX).put(seed).array();
            this.key = KeyFactory.getInstance("Ed25519").generatePrivate(new PKCS8EncodedKeySpec(encoded));
            this.verifier = NoteVerifier.of(name, kind, publicKey(seed));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("Ed25519 is part of this Java platform", e);
        }
    }

    /// A fresh key of a log.
    public static NoteSigner generate(String name, SecureRandom random) {
        return generate(name, Kind.LOG, random);
    }

    public static NoteSigner generate(String name, Kind kind, SecureRandom random) {
        byte[] seed = new byte[32];
        random.nextBytes(seed);
        return new NoteSigner(name, kind, seed);
    }

    /// Reads `PRIVATE+KEY+name+id+base64(kind || seed)`.
    ///
    /// @throws IntegrityException code `NOTE_KEY` if the text is not that, or the id is not the key's
    public static NoteSigner parse(String text) {
        String stripped = text.strip();
        if (!stripped.startsWith(PREFIX)) {
            throw new IntegrityException("NOTE_KEY", "key: expected a text that begins with " + PREFIX);
        }
        Parts parts = Parts.parse(stripped.substring(PREFIX.length()), PREFIX + "name+id+base64");
        NoteSigner signer = new NoteSigner(parts.name(), parts.kind(), parts.key());
        if (signer.keyId() != parts.keyId()) {
            throw new IntegrityException("NOTE_KEY", "key %s: id: expected %08x, got %08x"
                    .formatted(Shown.text(parts.name()), signer.keyId(), parts.keyId()));
        }
        return signer;
    }

    /// Reads a key file; see [NoteKeyFile].
    public static NoteSigner load(Path file) throws IOException {
        return NoteKeyFile.load(file);
    }

    /// Reads the key file or, where there is none, makes a key and the file; see [NoteKeyFile].
    ///
    /// @param name of the key that is made; an existing key keeps its own
    public static NoteSigner loadOrCreate(Path file, String name, SecureRandom random) throws IOException {
        return loadOrCreate(file, name, Kind.LOG, random);
    }

    /// @param kind of the key that is made; an existing key keeps its own
    public static NoteSigner loadOrCreate(Path file, String name, Kind kind, SecureRandom random) throws IOException {
        return NoteKeyFile.loadOrCreate(file, name, kind, random);
    }

    /// The 32-byte public key of a seed. The platform derives one only while it generates a pair, so the generator is
    /// given the seed as its random bytes.
    private static byte[] publicKey(byte[] seed) throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("Ed25519");
        generator.initialize(NamedParameterSpec.ED25519, new SeedAsRandom(seed));
        KeyPair pair = generator.generateKeyPair();
        byte[] secret = pair.getPrivate().getEncoded();
        if (!Arrays.equals(seed, Arrays.copyOfRange(secret, secret.length - 32, secret.length))) {
            throw new IllegalStateException("the platform's Ed25519 generator did not take the seed as given");
        }
        PublicKey publicKey = pair.getPublic();
        byte[] encoded = publicKey.getEncoded();
        return Arrays.copyOfRange(encoded, encoded.length - 32, encoded.length);
    }

    private static final class SeedAsRandom extends SecureRandom {
        private static final long serialVersionUID = 1L;
        private final byte[] seed;

        SeedAsRandom(byte[] seed) {
            this.seed = seed;
        }

        @Override
        public void nextBytes(byte[] bytes) {
            System.arraycopy(seed, 0, bytes, 0, bytes.length);
        }
    }

    /// The signature of a log's key over the text of a note: 64 bytes; deterministic, as Ed25519 is.
    ///
    /// @throws IntegrityException code `NOTE_KEY_KIND` for a witness's key, which states a time with each signature
    public byte[] sign(byte[] text) {
        requireKind(Kind.LOG);
        return signature(text);
    }

    /// The signature of a witness's key over the text of a checkpoint: the time as 8 bytes big-endian, and 64 bytes.
    ///
    /// @param seconds since the epoch, UTC, when the witness saw it
    public byte[] cosign(byte[] text, long seconds) {
        requireKind(Kind.WITNESS);
        if (seconds < 0) {
            throw new IllegalArgumentException("cosign: expected a time since 1970, got " + seconds);
        }
        return ByteBuffer.allocate(NoteVerifier.COSIGNATURE_BYTES).putLong(seconds)
                .put(signature(NoteVerifier.cosigned(seconds, text))).array();
    }

    void requireKind(Kind kind) {
        if (kind() != kind) {
            throw new IntegrityException("NOTE_KEY_KIND", "key %s: expected the key of a %s, got that of a %s; make one with audit keygen%s"
                    .formatted(label(), word(kind), word(kind()), kind == Kind.WITNESS ? " --witness" : ""));
        }
    }

    private static String word(Kind kind) {
        return kind.name().toLowerCase(Locale.ROOT);
    }

    private byte[] signature(byte[] message) {
        try {
            Signature ed25519 = Signature.getInstance("Ed25519");
            ed25519.initSign(key);
            ed25519.update(message);
            return ed25519.sign();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("Ed25519 is part of this Java platform", e);
        }
    }

    /// A pseudonym of a tenant: equal for equal names under this key, and telling nothing to who lacks the key. The
    /// HMAC key is itself `HMAC-SHA256(seed, "millrace/tenant-ref/v1")`, so no signature and no pseudonym helps with
    /// the other.
    ///
    /// @param tenant empty for the default tenant
    public TenantRef tenantRef(String tenant) {
        byte[] derived = hmac(seed, "millrace/tenant-ref/v1");
        return new TenantRef(Arrays.copyOf(hmac(derived, tenant), 16));
    }

    /// A salt for the KV cache: equal for equal scopes under this key, and telling nothing to who lacks the key. The
    /// HMAC key is itself `HMAC-SHA256(seed, "millrace/cache-salt/v1")`, so no pseudonym helps with a salt.
    ///
    /// @param scope names who shares the salt
    /// @return 64 hexadecimal digits
    public String cacheSalt(String scope) {
        byte[] derived = hmac(seed, "millrace/cache-salt/v1");
        return HexFormat.of().formatHex(hmac(derived, scope));
    }

    /// The key that wraps the tenants' keys: 32 bytes for AES, `HKDF-SHA256` of the seed without a salt, with the info
    /// `"millrace/tenant-kek/v1"`.
    SecretKeySpec wrappingKey() {
        try {
            HKDFParameterSpec derivation = HKDFParameterSpec.ofExtract().addIKM(seed)
                    .thenExpand("millrace/tenant-kek/v1".getBytes(StandardCharsets.US_ASCII), 32);
            return new SecretKeySpec(KDF.getInstance("HKDF-SHA256").deriveData(derivation), "AES");
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("HKDF-SHA256 is part of this Java platform", e);
        }
    }

    private static byte[] hmac(byte[] secret, String text) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(secret, "HmacSHA256"));
            return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("HMAC-SHA256 is part of every Java platform", e);
        }
    }

    public NoteVerifier verifier() {
        return verifier;
    }

    @Override
    public String name() {
        return verifier.name();
    }

    @Override
    public Kind kind() {
        return verifier.kind();
    }

    @Override
    public int keyId() {
        return verifier.keyId();
    }

    @Override
    public String vkey() {
        return verifier.vkey();
    }

    /// The secret as text, for the key file alone.
    String secretText() {
        return PREFIX + Parts.text(name(), keyId(), kind(), seed);
    }

    @Override
    public String toString() {
        return "NoteSigner[" + label() + ", secret hidden]";
    }
}

package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import millrace.schemas.SaltRecord;
import millrace.schemas.TenantRef;

/// The key that one tenant's salts are sealed under in one partition, and what it seals. Who destroys the key has destroyed
/// all of those salts.
///
/// Everything is AES-256-GCM with 12 random bytes of nonce and 16 of tag. Nonces are random, not counted: a transaction that
/// is aborted leaves its records in the topic, and its sequence numbers are given out again.
///
/// The key itself is kept wrapped, as [#wrap] writes it: `[u8 version = 1] [u32 id of the audit key] [12 bytes nonce] [sealed]`,
/// big-endian, where `sealed` is the 32 bytes of the key and the tenant's name in UTF-8 under
/// [NoteSigner#wrappingKey()], authenticated with `"millrace/tenant-key/v1\n"` and the 8 bytes of the key's id. The name is in
/// there so that the pseudonym, which changes with the audit key, can be made anew.
public final class TenantKey {
    public static final int ID_BYTES = 8;
    private static final int KEY_BYTES = 32;
    private static final int NONCE_BYTES = 12;
    private static final int TAG_BITS = 128;
    private static final byte VERSION = 1;
    private static final int HEAD = 1 + Integer.BYTES + NONCE_BYTES;
    private static final byte[] KEY_TAG = "millrace/tenant-key/v1\n".getBytes(StandardCharsets.US_ASCII);
    private static final String SALT_TAG = "millrace/salt/v1\n";

    private final String tenant;
    private final byte[] secret;
    private final byte[] id;

    private TenantKey(String tenant, byte[] secret) {
        this.tenant = tenant;
        this.secret = secret;
        this.id = Arrays.copyOf(Digest.sha256(KEY_TAG, secret).bytes(), ID_BYTES);
    }

    /// A fresh key.
    ///
    /// @param tenant empty for who gave none
    public static TenantKey generate(String tenant, SecureRandom random) {
        byte[] secret = new byte[KEY_BYTES];
        random.nextBytes(secret);
        return new TenantKey(tenant, secret);
    }

    /// Empty for who gave none.
    public String tenant() {
        return tenant;
    }

    /// The first 8 bytes of `SHA-256("millrace/tenant-key/v1\n" || key)`.
    public byte[] id() {
        return id.clone();
    }

    /// The key as it is kept.
    public byte[] wrap(NoteSigner master, SecureRandom random) {
        byte[] name = tenant.getBytes(StandardCharsets.UTF_8);
        byte[] plain = ByteBuffer.allocate(KEY_BYTES + name.length).put(secret).put(name).array();
        byte[] nonce = nonce(random);
        byte[] sealed = crypt(Cipher.ENCRYPT_MODE, master.wrappingKey(), nonce, plain, KEY_TAG, id);
        return ByteBuffer.allocate(HEAD + sealed.length).put(VERSION).putInt(master.keyId()).put(nonce).put(sealed).array();
    }

    /// The id of the audit key that a wrapped key needs.
    ///
    /// @throws IntegrityException code `TENANT_KEY_INVALID` if the bytes are not those of [#wrap]
    public static int wrappedBy(byte[] wrapped) {
        if (wrapped.length < HEAD + KEY_BYTES + TAG_BITS / 8 || wrapped[0] != VERSION) {
            throw new IntegrityException("TENANT_KEY_INVALID", "tenant key: expected version 1 and at least %d bytes, got %d bytes"
                    .formatted(HEAD + KEY_BYTES + TAG_BITS / 8, wrapped.length));
        }
        return ByteBuffer.wrap(wrapped).getInt(1);
    }

    /// Opens a kept key.
    ///
    /// @param id of the key, as it is kept beside it
    /// @throws IntegrityException `TENANT_KEY_INVALID` if the bytes are no wrapped key, were changed, or are of another id;
    ///     `TENANT_KEY_FOREIGN` if another audit key is needed
    public static TenantKey unwrap(byte[] wrapped, byte[] id, NoteSigner master) {
        int by = wrappedBy(wrapped);
        if (by != master.keyId()) {
            throw new IntegrityException("TENANT_KEY_FOREIGN",
                    "tenant key %s: expected the audit key with id %08x, got %s; give that key"
                            .formatted(HexFormat.of().formatHex(id), by, master.label()));
        }
        byte[] nonce = Arrays.copyOfRange(wrapped, HEAD - NONCE_BYTES, HEAD);
        byte[] sealed = Arrays.copyOfRange(wrapped, HEAD, wrapped.length);
        byte[] plain = crypt(Cipher.DECRYPT_MODE, master.wrappingKey(), nonce, sealed, KEY_TAG, id);
        TenantKey key = plain.length < KEY_BYTES ? null : new TenantKey(
                new String(plain, KEY_BYTES, plain.length - KEY_BYTES, StandardCharsets.UTF_8), Arrays.copyOf(plain, KEY_BYTES));
        if (key == null || !Arrays.equals(key.id, id)) {
            throw new IntegrityException("TENANT_KEY_INVALID", "tenant key %s: expected bytes that the audit key %s wrapped, got others"
                    .formatted(HexFormat.of().formatHex(id), master.label()));
        }
        return key;
    }

    /// The key of a salt's record in its topic.
    public static String saltKey(String origin, long seq) {
        return origin + "/" + seq;
    }

    /// Seals the salt of a leaf.
    public SaltRecord seal(String origin, long seq, String requestId, TenantRef tenantRef, byte[] salt, SecureRandom random) {
        byte[] nonce = nonce(random);
        byte[] sealed = crypt(Cipher.ENCRYPT_MODE, aes(secret), nonce, salt, bound(origin, seq));
        return new SaltRecord(origin, seq, requestId, ByteBuffer.wrap(tenantRef.bytes()), ByteBuffer.wrap(id.clone()),
                ByteBuffer.wrap(nonce), ByteBuffer.wrap(sealed));
    }

    /// The salt of a leaf, 32 bytes.
    ///
    /// @throws IntegrityException code `SALT_SEAL` if the record is of another key or another leaf, or was changed
    public byte[] open(SaltRecord record) {
        byte[] salt = crypt(Cipher.DECRYPT_MODE, aes(secret), Buffers.bytes(record.getNonce()), Buffers.bytes(record.getSealed()),
                bound(record.getOrigin(), record.getSeq()));
        if (salt.length != Commitment.SALT_BYTES) {
            throw new IntegrityException("SALT_SEAL", ("salt of leaf %d of %s: expected 32 bytes sealed under the tenant's key %s for"
                    + " this leaf, got others; the record was changed, or moved from another leaf").formatted(record.getSeq(),
                    Shown.text(record.getOrigin()), HexFormat.of().formatHex(id)));
        }
        return salt;
    }

    private static byte[] bound(String origin, long seq) {
        return (SALT_TAG + saltKey(origin, seq)).getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] nonce(SecureRandom random) {
        byte[] nonce = new byte[NONCE_BYTES];
        random.nextBytes(nonce);
        return nonce;
    }

    private static SecretKeySpec aes(byte[] secret) {
        return new SecretKeySpec(secret, "AES");
    }

    /// Encrypts or decrypts; nothing at all for what does not authenticate.
    private static byte[] crypt(int mode, SecretKeySpec key, byte[] nonce, byte[] input, byte[]... bound) {
        try {
            if (nonce.length != NONCE_BYTES || mode == Cipher.DECRYPT_MODE && input.length < TAG_BITS / 8) {
                return new byte[0];
            }
            Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
            cipher.init(mode, key, new GCMParameterSpec(TAG_BITS, nonce));
            for (byte[] part : bound) {
                cipher.updateAAD(part);
            }
            return cipher.doFinal(input);
        } catch (AEADBadTagException forged) {
            return new byte[0];
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("AES-GCM is part of every Java platform", e);
        }
    }

    /// Without the secret.
    @Override
    public String toString() {
        return "TenantKey[" + Base64.getEncoder().encodeToString(id) + ", secret hidden]";
    }
}

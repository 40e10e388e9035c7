package millrace.integrity;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import millrace.schemas.Hash;

/// A SHA-256 value: 32 bytes, immutable, compared in constant time.
public final class Digest {
    public static final int BYTES = 32;

    /// 32 zero bytes: stands where there is nothing to name, such as before a log's first leaf.
    public static final Digest ZERO = new Digest(new byte[BYTES]);

    private final byte[] bytes;

    private Digest(byte[] owned) {
        this.bytes = owned;
    }

    /// The value with exactly these 32 bytes.
    public static Digest of(byte[] bytes) {
        if (bytes.length != BYTES) {
            throw new IllegalArgumentException("digest: expected 32 bytes, got %d".formatted(bytes.length));
        }
        return new Digest(bytes.clone());
    }

    public static Digest of(Hash hash) {
        return of(hash.bytes());
    }

    /// Reads 64 hexadecimal digits, with or without the prefix `sha256:`.
    public static Digest ofHex(String text) {
        String hex = text.startsWith("sha256:") ? text.substring(7) : text;
        if (hex.length() != 2 * BYTES) {
            throw new IllegalArgumentException(
                    "digest: expected 64 hexadecimal digits, got %d characters".formatted(hex.length()));
        }
        return new Digest(HexFormat.of().parseHex(hex));
    }

    /// SHA-256 of the parts, one after the other.
    public static Digest sha256(byte[]... parts) {
        MessageDigest sha = newSha256();
        for (byte[] part : parts) {
            sha.update(part);
        }
        return new Digest(sha.digest());
    }

    /// SHA-256 of the text's UTF-8 bytes.
    public static Digest sha256(String text) {
        return sha256(text.getBytes(StandardCharsets.UTF_8));
    }

    /// Ends a running computation; the caller's object is reset by it.
    static Digest finish(MessageDigest sha) {
        return new Digest(sha.digest());
    }

    public static MessageDigest newSha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("SHA-256 is part of every Java platform", e);
        }
    }

    static Digest wrap(byte[] bytes, int from) {
        byte[] copy = new byte[BYTES];
        System.arraycopy(bytes, from, copy, 0, BYTES);
        return new Digest(copy);
    }

    void feed(MessageDigest sha) {
        sha.update(bytes);
    }

    void copyTo(byte[] target, int at) {
        System.arraycopy(bytes, 0, target, at, BYTES);
    }

    public byte[] bytes() {
        return bytes.clone();
    }

    /// 64 lower-case hexadecimal digits.
    public String hex() {
        return HexFormat.of().formatHex(bytes);
    }

    /// The same value as the records of `schemas` carry it.
    public Hash toHash() {
        return new Hash(bytes.clone());
    }

    public boolean isZero() {
        return equals(ZERO);
    }

    /// Whether the record's field holds this value.
    public boolean matches(Hash hash) {
        return MessageDigest.isEqual(bytes, hash.bytes());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Digest that && MessageDigest.isEqual(bytes, that.bytes);
    }

    @Override
    public int hashCode() {
        return (bytes[0] & 255) << 24 | (bytes[1] & 255) << 16 | (bytes[2] & 255) << 8 | bytes[3] & 255;
    }

    @Override
    public String toString() {
        return hex();
    }
}

package millrace.engine.weights;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/// SHA-256 in lower-case hexadecimal.
final class Sha256 {
    private static final int CHUNK = 1 << 16;

    private Sha256() {}

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(digest().digest(bytes));
    }

    /// Over a segment of any size, through a buffer that fits the cache.
    static String hex(MemorySegment segment) {
        MessageDigest digest = digest();
        feed(digest, segment);
        return HexFormat.of().formatHex(digest.digest());
    }

    /// A segment of any size into a digest.
    static void feed(MessageDigest digest, MemorySegment segment) {
        byte[] buffer = new byte[CHUNK];
        for (long at = 0; at < segment.byteSize(); at += CHUNK) {
            int length = (int) Math.min(CHUNK, segment.byteSize() - at);
            MemorySegment.copy(segment, ValueLayout.JAVA_BYTE, at, buffer, 0, length);
            digest.update(buffer, 0, length);
        }
    }

    static MessageDigest digest() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}

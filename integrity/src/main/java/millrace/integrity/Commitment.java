package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.List;

/// A salted commitment: it binds its maker to some bytes and tells nobody else anything about them.
///
/// `SHA-256("commit/v1" || u8 kind || salt(32) || u64be length || bytes)`. One random salt per request opens all
/// commitments of that request; it travels in the completion, never in the log. Destroying it erases the content's last
/// trace: equal prompts have unrelated commitments, and short ones cannot be guessed.
public final class Commitment {
    public static final int SALT_BYTES = 32;
    private static final byte[] TAG = "commit/v1".getBytes(StandardCharsets.US_ASCII);

    /// What is committed to; the number is part of the hash.
    public enum Kind {
        /// The rendered prompt in UTF-8.
        PROMPT(1),
        /// The completion's text in UTF-8.
        COMPLETION(2),
        /// Token ids, each 4 bytes little-endian.
        TOKEN_IDS(3),
        /// Stop strings, each as its length (4 bytes big-endian) and its UTF-8 bytes.
        STOP_LIST(4),
        /// Activation proofs after one another.
        PROOFS(5),
        /// A record's value as it was received.
        RECORD(6),
        /// Digests of logits, each 4 bytes little-endian.
        LOGITS(7),
        /// The response format that the choice of tokens was held to, as the prompt has it, or the form of calls, in UTF-8.
        GUIDE(8),
        /// What a completion says beside its text, as [ReplyForm] writes it.
        REPLY(9);

        private final int number;

        Kind(int number) {
            this.number = number;
        }

        public int number() {
            return number;
        }
    }

    private Commitment() {}

    /// 32 fresh random bytes.
    public static byte[] newSalt(SecureRandom random) {
        byte[] salt = new byte[SALT_BYTES];
        random.nextBytes(salt);
        return salt;
    }

    public static Digest commit(Kind kind, byte[] salt, byte[] bytes) {
        if (salt.length != SALT_BYTES) {
            throw new IllegalArgumentException("salt: expected 32 bytes, got %d".formatted(salt.length));
        }
        MessageDigest sha = Digest.newSha256();
        sha.update(TAG);
        sha.update((byte) kind.number);
        sha.update(salt);
        sha.update(ByteBuffer.allocate(8).putLong(bytes.length).array());
        sha.update(bytes);
        return Digest.finish(sha);
    }

    public static Digest prompt(byte[] salt, String renderedPrompt) {
        return commit(Kind.PROMPT, salt, renderedPrompt.getBytes(StandardCharsets.UTF_8));
    }

    public static Digest completion(byte[] salt, String text) {
        return commit(Kind.COMPLETION, salt, text.getBytes(StandardCharsets.UTF_8));
    }

    public static Digest tokenIds(byte[] salt, List<Integer> ids) {
        return tokenIds(salt, ids.stream().mapToInt(Integer::intValue).toArray());
    }

    public static Digest tokenIds(byte[] salt, int[] ids) {
        return commit(Kind.TOKEN_IDS, salt, littleEndian(ids));
    }

    /// @param digests CRC-32C of so many tokens' logits each, as the bits of an int
    public static Digest logits(byte[] salt, List<Integer> digests) {
        return commit(Kind.LOGITS, salt, littleEndian(digests.stream().mapToInt(Integer::intValue).toArray()));
    }

    private static byte[] littleEndian(int[] numbers) {
        ByteBuffer bytes = ByteBuffer.allocate(4 * numbers.length).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(numbers);
        return bytes.array();
    }

    public static Digest stopList(byte[] salt, List<String> stop) {
        List<byte[]> texts = stop.stream().map(text -> text.getBytes(StandardCharsets.UTF_8)).toList();
        ByteBuffer bytes = ByteBuffer.allocate(texts.stream().mapToInt(text -> 4 + text.length).sum());
        texts.forEach(text -> bytes.putInt(text.length).put(text));
        return commit(Kind.STOP_LIST, salt, bytes.array());
    }

    /// @param proofs [ActivationProof]s, encoded and after one another
    public static Digest proofs(byte[] salt, byte[] proofs) {
        return commit(Kind.PROOFS, salt, proofs);
    }

    /// @param responseFormat its JSON text, as the prompt has it, or the form of calls in its place
    public static Digest guide(byte[] salt, String responseFormat) {
        return commit(Kind.GUIDE, salt, responseFormat.getBytes(StandardCharsets.UTF_8));
    }

    /// To a record's value as received; a record without a value counts as no bytes.
    public static Digest record(byte[] salt, byte[] value) {
        return commit(Kind.RECORD, salt, value);
    }

    /// Whether `bytes` under `salt` are what `commitment` was made of.
    public static boolean opens(Digest commitment, Kind kind, byte[] salt, byte[] bytes) {
        return salt.length == SALT_BYTES && commitment.equals(commit(kind, salt, bytes));
    }
}

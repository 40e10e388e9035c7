package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import org.jspecify.annotations.Nullable;

/// An Ed25519 key for signed notes: either half, under a name.
///
/// The key's id is the first 4 bytes of `SHA-256(name || "\n" || kind || public key)`.
public sealed interface NoteKey permits NoteSigner, NoteVerifier {
    /// What a key is for; the number stands before its bytes in every text of it.
    enum Kind {
        /// Signs notes as they are: the key of a log.
        LOG(1),
        /// Signs checkpoints with the time at which it saw them (c2sp.org/tlog-cosignature): the key of a witness.
        WITNESS(4);

        private final byte number;

        Kind(int number) {
            this.number = (byte) number;
        }

        byte number() {
            return number;
        }

        private static @Nullable Kind of(byte number) {
            return number == LOG.number ? LOG : number == WITNESS.number ? WITNESS : null;
        }
    }

    Kind kind();

    /// Who signs: no spaces, no `+`, no control characters.
    String name();

    int keyId();

    /// The public half as text: `name+id+base64(kind || public key)`.
    String vkey();

    /// Name and id, for messages.
    default String label() {
        return "%s+%08x".formatted(name(), keyId());
    }

    static boolean isName(String name) {
        return !name.isEmpty() && name.length() <= 512 && name.codePoints().allMatch(c -> c != '+'
                && !Character.isWhitespace(c) && !Character.isSpaceChar(c) && !Character.isISOControl(c));
    }

    /// The three parts of a key's text after its prefix, checked but for what the algorithm says of them.
    ///
    /// @param key 32 bytes
    record Parts(String name, int keyId, Kind kind, byte[] key) {
        static Parts parse(String text, String form) {
            int last = text.indexOf('+', text.indexOf('+') + 1);
            int first = text.indexOf('+');
            if (first > 0 && last == first + 9) {
                String name = text.substring(0, first);
                String id = text.substring(first + 1, last);
                byte[] blob = SignedNote.base64(text.substring(last + 1));
                Kind kind = blob != null && blob.length == 33 ? Kind.of(blob[0]) : null;
                if (isName(name) && id.matches("[0-9a-f]{8}") && blob != null && kind != null) {
                    return new Parts(name, HexFormat.fromHexDigits(id), kind, Arrays.copyOfRange(blob, 1, blob.length));
                }
            }
            throw new IntegrityException("NOTE_KEY", "key: expected %s of an Ed25519 key".formatted(form));
        }

        static int keyId(String name, Kind kind, byte[] publicKey) {
            byte[] text = (name + "\n").getBytes(StandardCharsets.UTF_8);
            return ByteBuffer.wrap(Digest.sha256(text, new byte[] {kind.number}, publicKey).bytes()).getInt();
        }

        /// `name+id+base64(kind || key)`.
        static String text(String name, int keyId, Kind kind, byte[] key) {
            byte[] blob = ByteBuffer.allocate(1 + key.length).put(kind.number).put(key).array();
            return "%s+%08x+%s".formatted(name, keyId, Base64.getEncoder().encodeToString(blob));
        }

        @Override
        public String toString() {
            return "%s+%08x+[hidden]".formatted(name, keyId);
        }
    }
}

package millrace.integrity;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;

/// An Ed25519 key for signed notes: either half, under a name.
///
/// The key's id is the first 4 bytes of `SHA-256(name || "\n" || 0x01 || public key)`.
public sealed interface NoteKey permits NoteSigner, NoteVerifier {
    /// Who signs: no spaces, no `+`, no control characters.
    String name();

    int keyId();

    /// The public half as text: `name+id+base64(0x01 || public key)`.
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
    /// @param blob algorithm byte and 32 bytes of key
    record Parts(String name, int keyId, byte[] blob) {
        static final byte ED25519 = 1;

        static Parts parse(String text, String form) {
            int last = text.indexOf('+', text.indexOf('+') + 1);
            int first = text.indexOf('+');
            if (first > 0 && last == first + 9) {
                String name = text.substring(0, first);
                String id = text.substring(first + 1, last);
                byte[] blob = SignedNote.base64(text.substring(last + 1));
                if (isName(name) && id.matches("[0-9a-f]{8}") && blob != null && blob.length == 33
                        && blob[0] == ED25519) {
                    return new Parts(name, HexFormat.fromHexDigits(id), blob);
                }
            }
            throw new IntegrityException("NOTE_KEY", "key: expected %s of an Ed25519 key".formatted(form));
        }

        byte[] key() {
            return Arrays.copyOfRange(blob, 1, blob.length);
        }

        static int keyId(String name, byte[] publicKey) {
            byte[] hash = Digest.sha256((name + "\n").getBytes(StandardCharsets.UTF_8), new byte[] {ED25519}, publicKey)
                    .bytes();
            return ByteBuffer.wrap(hash).getInt();
        }

        @Override
        public String toString() {
            return "%s+%08x+[hidden]".formatted(name, keyId);
        }
    }
}

package millrace.engine.tokenizer;

import org.jspecify.annotations.Nullable;

/// The alphabet in which byte-level tokenizers print bytes: printable Latin-1 as itself, the other 68 bytes as the
/// characters from U+0100 on.
final class ByteLevel {
    private static final String ALPHABET = alphabet();

    private ByteLevel() {}

    private static String alphabet() {
        StringBuilder chars = new StringBuilder(256);
        int next = 0x100;
        for (int b = 0; b < 256; b++) {
            boolean printable = b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174;
            chars.append((char) (printable ? b : next++));
        }
        return chars.toString();
    }

    /// The bytes of a printed token as an ISO-8859-1 string, or null if a character is not of the alphabet.
    static @Nullable String bytes(String token) {
        StringBuilder bytes = new StringBuilder(token.length());
        for (int i = 0; i < token.length(); i++) {
            char c = token.charAt(i);
            int b = c < 0x180 ? ALPHABET.indexOf(c) : -1;
            if (b < 0) {
                return null;
            }
            bytes.append((char) b);
        }
        return bytes.toString();
    }
}

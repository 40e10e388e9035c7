package millrace.engine.tokenizer;

import java.util.Arrays;
import millrace.engine.InvalidRequestException;

/// A UTF-8 decoder that keeps an incomplete character between calls, and the strict way from text to bytes.
final class Utf8 {
    private static final char REPLACEMENT = '\uFFFD';

    private int needed; // continuation bytes that the character at hand still lacks
    private int codePoint;
    private int lowest = 0x80; // what the next continuation byte may be
    private int highest = 0xBF;

    /// Appends all complete characters; the rest is held.
    void decode(byte[] bytes, StringBuilder text) {
        for (byte b : bytes) {
            int value = b & 0xFF;
            if (needed > 0 && (value < lowest || value > highest)) {
                text.append(REPLACEMENT);
                needed = 0;
            }
            if (needed == 0) {
                begin(value, text);
            } else {
                codePoint = codePoint << 6 | value & 0x3F;
                lowest = 0x80;
                highest = 0xBF;
                if (--needed == 0) {
                    text.appendCodePoint(codePoint);
                }
            }
        }
    }

    /// Ends the text: an incomplete character becomes U+FFFD.
    void end(StringBuilder text) {
        if (needed > 0) {
            text.append(REPLACEMENT);
            needed = 0;
        }
    }

    private void begin(int value, StringBuilder text) {
        lowest = 0x80;
        highest = 0xBF;
        if (value < 0x80) {
            text.append((char) value);
        } else if (value >= 0xC2 && value <= 0xDF) {
            codePoint = value & 0x1F;
            needed = 1;
        } else if (value >= 0xE0 && value <= 0xEF) {
            codePoint = value & 0x0F;
            needed = 2;
            lowest = value == 0xE0 ? 0xA0 : 0x80; // no overlong forms
            highest = value == 0xED ? 0x9F : 0xBF; // no surrogates
        } else if (value >= 0xF0 && value <= 0xF4) {
            codePoint = value & 0x07;
            needed = 3;
            lowest = value == 0xF0 ? 0x90 : 0x80;
            highest = value == 0xF4 ? 0x8F : 0xBF; // nothing above U+10FFFF
        } else {
            text.append(REPLACEMENT);
        }
    }

    /// The index of the first lone surrogate, or -1.
    static int loneSurrogate(CharSequence text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (!Character.isSurrogate(c)) {
                continue;
            }
            boolean pair = Character.isHighSurrogate(c)
                    && i + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(i + 1));
            if (!pair) {
                return i;
            }
            i++;
        }
        return -1;
    }

    /// @throws InvalidRequestException PROMPT_NOT_UTF8 if the text is not a sequence of characters
    static void requireWellFormed(String where, String text) {
        int at = loneSurrogate(text);
        if (at >= 0) {
            throw new InvalidRequestException(
                    "PROMPT_NOT_UTF8",
                    "%s: expected well-formed Unicode, got the lone surrogate U+%04X at char %d; send whole characters"
                            .formatted(where, (int) text.charAt(at), at));
        }
    }

    /// Writes the bytes of `text[from, to)`, well-formed, to `target` and returns how many.
    static int encode(CharSequence text, int from, int to, byte[] target) {
        int n = 0;
        for (int i = from; i < to; i++) {
            int c = text.charAt(i);
            if (c < 0x80) {
                target[n++] = (byte) c;
                continue;
            }
            if (c < 0x800) {
                target[n++] = (byte) (0xC0 | c >> 6);
            } else if (Character.isSurrogate((char) c)) {
                c = Character.toCodePoint((char) c, text.charAt(++i));
                target[n++] = (byte) (0xF0 | c >> 18);
                target[n++] = (byte) (0x80 | c >> 12 & 0x3F);
                target[n++] = (byte) (0x80 | c >> 6 & 0x3F);
            } else {
                target[n++] = (byte) (0xE0 | c >> 12);
                target[n++] = (byte) (0x80 | c >> 6 & 0x3F);
            }
            target[n++] = (byte) (0x80 | c & 0x3F);
        }
        return n;
    }

    static byte[] encode(CharSequence text) {
        byte[] bytes = new byte[Math.multiplyExact(3, text.length())];
        return Arrays.copyOf(bytes, encode(text, 0, text.length(), bytes));
    }
}

package millrace.engine.guide;

import java.util.Arrays;

/// The inside of a JSON string in UTF-8 as RFC 8259 and RFC 3629 have it: no control characters, no overlong forms, no
/// surrogates but escaped pairs.
final class StringLexer {
    /// Between two characters.
    static final int BODY = 0;

    /// Behind a backslash.
    static final int ESCAPE = 1;

    private static final int HEX = 2;
    private static final int HEX_D = 3;
    private static final int HEX_3 = 4;
    private static final int HEX_2 = 5;
    private static final int HEX_1 = 6;
    private static final int HIGH_2 = 7;
    private static final int HIGH_1 = 8;
    private static final int LOW = 9;
    private static final int LOW_U = 10;
    private static final int LOW_D = 11;
    private static final int LOW_C = 12;
    private static final int MORE_1 = 13;
    private static final int MORE_2 = 14;
    private static final int MORE_3 = 15;
    private static final int MORE_E0 = 16;
    private static final int MORE_ED = 17;
    private static final int MORE_F0 = 18;
    private static final int MORE_F4 = 19;
    private static final int STATES = 20;
    private static final byte[] NEXT = table();

    private StringLexer() {}

    /// The same of a text that is in no quotes, so that every character stands for itself.
    static int raw(int state, int b) {
        return state == BODY && b < 0x80 ? BODY : step(state, b);
    }

    /// The state after a byte, or −1. The closing quote is not of the inside.
    static int step(int state, int b) {
        return NEXT[state << 8 | b];
    }

    private static byte[] table() {
        byte[] table = new byte[STATES << 8];
        Arrays.fill(table, (byte) -1);
        range(table, BODY, 0x20, 0x7F, BODY);
        range(table, BODY, '"', '"', -1);
        range(table, BODY, '\\', '\\', ESCAPE);
        range(table, BODY, 0xC2, 0xDF, MORE_1);
        range(table, BODY, 0xE1, 0xEF, MORE_2);
        range(table, BODY, 0xE0, 0xE0, MORE_E0);
        range(table, BODY, 0xED, 0xED, MORE_ED);
        range(table, BODY, 0xF1, 0xF3, MORE_3);
        range(table, BODY, 0xF0, 0xF0, MORE_F0);
        range(table, BODY, 0xF4, 0xF4, MORE_F4);
        range(table, MORE_1, 0x80, 0xBF, BODY);
        range(table, MORE_2, 0x80, 0xBF, MORE_1);
        range(table, MORE_3, 0x80, 0xBF, MORE_2);
        range(table, MORE_E0, 0xA0, 0xBF, MORE_1);
        range(table, MORE_ED, 0x80, 0x9F, MORE_1);
        range(table, MORE_F0, 0x90, 0xBF, MORE_2);
        range(table, MORE_F4, 0x80, 0x8F, MORE_2);
        for (char c : "\"\\/bfnrt".toCharArray()) {
            range(table, ESCAPE, c, c, BODY);
        }
        range(table, ESCAPE, 'u', 'u', HEX);
        hex(table, HEX, 0x0, 0xF, HEX_3);
        hex(table, HEX, 0xD, 0xD, HEX_D);
        hex(table, HEX_D, 0x0, 0x7, HEX_2);
        hex(table, HEX_D, 0x8, 0xB, HIGH_2);
        hex(table, HEX_3, 0x0, 0xF, HEX_2);
        hex(table, HEX_2, 0x0, 0xF, HEX_1);
        hex(table, HEX_1, 0x0, 0xF, BODY);
        hex(table, HIGH_2, 0x0, 0xF, HIGH_1);
        hex(table, HIGH_1, 0x0, 0xF, LOW);
        range(table, LOW, '\\', '\\', LOW_U);
        range(table, LOW_U, 'u', 'u', LOW_D);
        hex(table, LOW_D, 0xD, 0xD, LOW_C);
        hex(table, LOW_C, 0xC, 0xF, HEX_2);
        return table;
    }

    private static void range(byte[] table, int state, int from, int to, int next) {
        for (int b = from; b <= to; b++) {
            table[state << 8 | b] = (byte) next;
        }
    }

    private static void hex(byte[] table, int state, int from, int to, int next) {
        for (int digit = from; digit <= to; digit++) {
            char lower = Character.forDigit(digit, 16);
            range(table, state, lower, lower, next);
            char upper = Character.toUpperCase(lower);
            range(table, state, upper, upper, next);
        }
    }
}

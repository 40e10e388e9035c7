package millrace.engine.guide;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// The marker that ends the value of an argument in formats that write values without quotes. Who reads the call looks for the first one, so
/// none may stand in a value, not in its strings either.
///
/// It begins with a character that comes in it once: a byte that does not go on begins anew.
final class Guard {
    static final String TEXT = "</arg_value>";
    private static final byte[] BYTES = TEXT.getBytes(StandardCharsets.UTF_8);

    /// Bytes of it.
    static final int LENGTH = BYTES.length;

    private Guard() {}

    static boolean is(byte[] marker) {
        return Arrays.equals(marker, BYTES);
    }

    /// How much of it the text ends with after one more byte; [#LENGTH] if all.
    ///
    /// @param matched how much it ended with, less than all
    static int step(int matched, int b) {
        return b == BYTES[matched] ? matched + 1 : b == BYTES[0] ? 1 : 0;
    }
}

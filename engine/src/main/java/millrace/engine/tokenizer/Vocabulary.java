package millrace.engine.tokenizer;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import millrace.engine.InvalidModelException;
import org.jspecify.annotations.Nullable;

/// The ordinary tokens: ids and their bytes. Byte sequences are kept as ISO-8859-1 strings, one byte a character.
final class Vocabulary {
    /// More ids than any model has; a file that names a larger one is damaged or hostile.
    static final int MAX_IDS = 1 << 20;

    private final Map<String, Integer> ids;
    private final byte[] @Nullable [] tokens;

    /// @param ids byte sequences that merging may reach
    /// @param unreachable tokens that have an id and bytes, and that merging never forms
    Vocabulary(String where, Map<String, Integer> ids, Map<Integer, byte[]> unreachable) {
        this.ids = new HashMap<>(ids);
        int size = 0;
        for (int id : ids.values()) {
            size = Math.max(size, id + 1);
        }
        for (int id : unreachable.keySet()) {
            size = Math.max(size, id + 1);
        }
        tokens = new byte[size][];
        ids.forEach((bytes, id) -> set(where, id, bytes.getBytes(StandardCharsets.ISO_8859_1)));
        unreachable.forEach((id, bytes) -> set(where, id, bytes));
        for (int b = 0; b < 256; b++) {
            if (!ids.containsKey(String.valueOf((char) b))) {
                throw invalid(
                        "%s: vocabulary: expected a token for every byte, got none for 0x%02X".formatted(where, b));
            }
        }
    }

    private void set(String where, int id, byte[] bytes) {
        if (tokens[id] != null) {
            throw invalid("%s: vocabulary: expected one token per id, got two for id %d".formatted(where, id));
        }
        tokens[id] = bytes;
    }

    /// @throws InvalidModelException TOK_INVALID
    static int requireId(String where, String token, long id) {
        if (id < 0 || id >= MAX_IDS) {
            throw invalid(
                    "%s: token \"%s\": expected an id from 0 to %d, got %d".formatted(where, token, MAX_IDS - 1, id));
        }
        return (int) id;
    }

    /// The id of a byte sequence, or null.
    @Nullable
    Integer id(String bytes) {
        return ids.get(bytes);
    }

    /// The bytes of an ordinary token, or null.
    byte @Nullable [] bytes(int id) {
        return id >= 0 && id < tokens.length ? tokens[id] : null;
    }

    /// One more than the largest id.
    int size() {
        return tokens.length;
    }

    private static InvalidModelException invalid(String message) {
        return new InvalidModelException("TOK_INVALID", message);
    }
}

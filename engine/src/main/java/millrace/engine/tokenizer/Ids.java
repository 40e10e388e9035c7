package millrace.engine.tokenizer;

import java.util.Arrays;

/// A growing list of token ids.
final class Ids {
    private int[] values = new int[64];
    private int size;

    void add(int id) {
        if (size == values.length) {
            values = Arrays.copyOf(values, Math.multiplyExact(2, size));
        }
        values[size++] = id;
    }

    void addAll(int[] ids) {
        for (int id : ids) {
            add(id);
        }
    }

    int[] toArray() {
        return Arrays.copyOf(values, size);
    }
}

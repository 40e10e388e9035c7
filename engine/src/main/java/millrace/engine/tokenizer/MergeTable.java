package millrace.engine.tokenizer;

import java.util.Arrays;

/// Which pairs of tokens merge: `(left, right)` to priority and result; open addressing, no boxes.
final class MergeTable {
    /// Above every merge, so that a minimum over pairs needs no case for those that do not merge.
    static final long NONE = Long.MAX_VALUE;

    private static final long EMPTY = -1;
    private long[] keys = new long[1024];
    private long[] values = new long[1024];
    private int size;

    MergeTable() {
        Arrays.fill(keys, EMPTY);
    }

    /// Adds a merge; the last one of a pair counts. A lower priority number merges first.
    void put(int left, int right, int priority, int result) {
        if (2 * size >= keys.length) {
            grow();
        }
        long key = key(left, right);
        int slot = slot(key);
        if (keys[slot] == EMPTY) {
            keys[slot] = key;
            size++;
        }
        values[slot] = (long) priority << 32 | result;
    }

    /// Priority in the upper, resulting id in the lower 32 bits; [#NONE] if the pair does not merge.
    long get(int left, int right) {
        int slot = slot(key(left, right));
        return keys[slot] == EMPTY ? NONE : values[slot];
    }

    int size() {
        return size;
    }

    private int slot(long key) {
        int mask = keys.length - 1;
        long mixed = key * 0x9E3779B97F4A7C15L;
        int slot = (int) (mixed >>> 32) & mask;
        while (keys[slot] != EMPTY && keys[slot] != key) {
            slot = slot + 1 & mask;
        }
        return slot;
    }

    private void grow() {
        long[] oldKeys = keys;
        long[] oldValues = values;
        keys = new long[oldKeys.length * 2];
        values = new long[oldKeys.length * 2];
        Arrays.fill(keys, EMPTY);
        for (int i = 0; i < oldKeys.length; i++) {
            if (oldKeys[i] != EMPTY) {
                int slot = slot(oldKeys[i]);
                keys[slot] = oldKeys[i];
                values[slot] = oldValues[i];
            }
        }
    }

    private static long key(int left, int right) {
        return (long) left << 32 | right;
    }
}

package millrace.engine.kernel.cpu;

import java.util.Arrays;

/// The largest of many scores, each with its position in one number: a *key*. Keys of different positions are different, and the
/// larger key is the better choice: that of the larger score, NaN being the largest, and of equal scores the lower position.
///
/// The n-th largest is found by digits, from the highest on: those that share the digits so far are counted by the next one,
/// and only they are looked at again. So the time is linear in the number of keys, whatever they are.
final class TopKeys {
    /// The first digit is sign, exponent and two bits more of a score, so that it seldom leaves many of them.
    private static final int DIGIT_BITS = 11;

    private final int[] histogram = new int[1 << DIGIT_BITS];
    private long[] rest = new long[0];

    /// @param score not −0, which would be less than +0
    static long key(float score, int position) {
        int bits = Float.floatToIntBits(score);
        int order = bits ^ bits >> 31 & Integer.MAX_VALUE;
        return (long) order << Integer.SIZE | ~position & 0xFFFF_FFFFL;
    }

    static int position(long key) {
        return ~(int) key;
    }

    /// The score of a key.
    static float score(long key) {
        int order = (int) (key >> Integer.SIZE);
        return Float.intBitsToFloat(order ^ order >> 31 & Integer.MAX_VALUE);
    }

    /// Makes room for [#keep] of so many keys.
    void reserve(int count) {
        if (rest.length < count) {
            rest = new long[count];
        }
    }

    /// Moves the `most` largest of `keys[from] … keys[from + count − 1]` to the front, in the order in which they stand.
    ///
    /// @return the least of them
    long keep(long[] keys, int from, int count, int most) {
        long least = nth(keys, from, count, most);
        int to = from;
        for (int i = from; i < from + count; i++) {
            long key = keys[i];
            keys[to] = key;
            to += key >= least ? 1 : 0;
        }
        return least;
    }

    /// The n-th largest key, n from 1 on.
    private long nth(long[] keys, int from, int count, int n) {
        long[] left = keys;
        int at = from;
        int size = count;
        int wanted = n;
        for (int shift = Long.SIZE - DIGIT_BITS; ; shift = Math.max(0, shift - DIGIT_BITS)) {
            count(left, at, size, shift);
            int digit = histogram.length - 1;
            while (histogram[digit] < wanted) {
                wanted -= histogram[digit--];
            }
            size = filter(left, at, size, shift, digit);
            if (size == 1) {
                return rest[0];
            }
            left = rest;
            at = 0;
        }
    }

    private void count(long[] keys, int at, int size, int shift) {
        Arrays.fill(histogram, 0);
        for (int i = at; i < at + size; i++) {
            histogram[digit(keys[i], shift)]++;
        }
    }

    /// Keys with this digit to `rest`, of which they may come.
    private int filter(long[] keys, int at, int size, int shift, int digit) {
        long[] to = rest;
        int count = 0;
        for (int i = at; i < at + size; i++) {
            long key = keys[i];
            to[count] = key;
            count += digit(key, shift) == digit ? 1 : 0;
        }
        return count;
    }

    private static int digit(long key, int shift) {
        return (int) ((key ^ Long.MIN_VALUE) >>> shift) & (1 << DIGIT_BITS) - 1;
    }
}

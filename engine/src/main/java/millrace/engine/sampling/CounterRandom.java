package millrace.engine.sampling;

/// Random numbers that have no state: Philox4x32-10, a bijection of a 128-bit counter under a 64-bit key.
///
/// Any number can be computed alone, in any order, on any machine: a step of a generation can be replayed without the
/// steps before it. Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011; the
/// test holds the authors' known answers (Random123, `kat_vectors`).
final class CounterRandom {
    private static final int ROUNDS = 10;
    private static final long MULTIPLIER_0 = 0xD2511F53L;
    private static final long MULTIPLIER_1 = 0xCD9E8D57L;
    private static final int WEYL_0 = 0x9E3779B9;
    private static final int WEYL_1 = 0xBB67AE85;
    private static final long LOW = 0xFFFFFFFFL;

    private CounterRandom() {}

    /// Writes the four words of counter (`c0`, `c1`, `c2`, `c3`) under key (low and high half of `key`) to `out`.
    static void block(long key, int c0, int c1, int c2, int c3, int[] out) {
        int k0 = (int) key;
        int k1 = (int) (key >>> 32);
        for (int round = 0; round < ROUNDS; round++) {
            long p0 = MULTIPLIER_0 * (c0 & LOW);
            long p1 = MULTIPLIER_1 * (c2 & LOW);
            c0 = (int) (p1 >>> 32) ^ c1 ^ k0;
            c1 = (int) p1;
            c2 = (int) (p0 >>> 32) ^ c3 ^ k1;
            c3 = (int) p0;
            k0 += WEYL_0;
            k1 += WEYL_1;
        }
        out[0] = c0;
        out[1] = c1;
        out[2] = c2;
        out[3] = c3;
    }

    /// The word as a number strictly between 0 and 1: `(word + 1/2) / 2³²`, exact in double.
    static double unit(int word) {
        return ((word & LOW) + 0.5) * 0x1p-32;
    }
}

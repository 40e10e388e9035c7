package millrace.engine.kv;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.DigestException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import millrace.engine.kernel.CacheShape;

/// The hash that names a page: of all tokens from the start of the sequence to the page's end, and of what else its
/// bytes depend on.
///
/// ```
///  h₀   = SHA-256( "millrace/kv/v1" ‖ 0 ‖ SHA-256(identity) ‖ SHA-256(salt) )      identity, salt in UTF-8
///  hₖ₊₁ = SHA-256( hₖ ‖ the 16 tokens of page k, 4 bytes little-endian each )
/// ```
///
/// Where pages depend on the token behind them too ([KvLayout#drafted]), every name looks one token ahead: h₁ takes tokens
/// 0 … 16, every later hₖ₊₁ takes tokens 16 k + 1 … 16 k + 16. Pages that lack what depends on it look at their own tokens only,
/// and begin elsewhere:
///
/// ```
///  h₀   = SHA-256( "millrace/kv/v1" ‖ 0 ‖ SHA-256(identity) ‖ SHA-256(salt) ‖ "undrafted" )
/// ```
///
/// Hashes are four words, big-endian. Used by one thread at a time; [#next] allocates nothing.
interface ChainHash {
    /// Words of a hash.
    int WORDS = 4;

    /// h₀ of a salt.
    ///
    /// @param undrafted of pages whose part of the draft layer is not filled
    long[] root(String salt, boolean undrafted);

    /// Writes hₖ₊₁ to `chain[WORDS · (k + 1) …]`, made from hₖ before it and `tokens[from … to)`.
    void next(long[] chain, int k, int[] tokens, int from, int to);

    /// Tokens behind a whole page that its name covers: 0 or 1.
    default int ahead() {
        return 0;
    }

    /// @param identity what the bytes of every page depend on, tokens and salt apart
    static ChainHash sha256(String identity) {
        return sha256(identity, 0);
    }

    /// @param identity what the bytes of every page depend on, tokens and salt apart
    /// @param ahead as [#ahead]
    static ChainHash sha256(String identity, int ahead) {
        return new Sha256(identity, ahead);
    }

    /// The definition above.
    final class Sha256 implements ChainHash {
        private static final byte[] DOMAIN = "millrace/kv/v1\0".getBytes(StandardCharsets.US_ASCII);
        private static final byte[] UNDRAFTED = "undrafted".getBytes(StandardCharsets.US_ASCII);
        private static final VarHandle LONGS =
                MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);
        private static final VarHandle INTS =
                MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

        private final MessageDigest sha;
        private final byte[] identity;
        private final int ahead;
        private final byte[] in;
        private final byte[] out = new byte[WORDS * Long.BYTES];

        private Sha256(String identity, int ahead) {
            this.ahead = ahead;
            in = new byte[WORDS * Long.BYTES + (CacheShape.TOKENS + ahead) * Integer.BYTES];
            try {
                sha = MessageDigest.getInstance("SHA-256");
            } catch (NoSuchAlgorithmException e) {
                throw new IllegalStateException("every Java platform has SHA-256", e);
            }
            this.identity = sha.digest(identity.getBytes(StandardCharsets.UTF_8));
        }

        @Override
        public long[] root(String salt, boolean undrafted) {
            byte[] salted = sha.digest(salt.getBytes(StandardCharsets.UTF_8));
            sha.update(DOMAIN);
            sha.update(identity);
            sha.update(salted);
            if (undrafted) {
                sha.update(UNDRAFTED);
            }
            long[] chain = new long[WORDS];
            digest(chain, 0);
            return chain;
        }

        @Override
        public int ahead() {
            return ahead;
        }

        @Override
        public void next(long[] chain, int k, int[] tokens, int from, int to) {
            for (int i = 0; i < WORDS; i++) {
                LONGS.set(in, i * Long.BYTES, chain[WORDS * k + i]);
            }
            for (int i = 0; i < to - from; i++) {
                INTS.set(in, WORDS * Long.BYTES + i * Integer.BYTES, tokens[from + i]);
            }
            sha.update(in, 0, WORDS * Long.BYTES + (to - from) * Integer.BYTES);
            digest(chain, WORDS * (k + 1));
        }

        private void digest(long[] chain, int at) {
            try {
                sha.digest(out, 0, out.length);
            } catch (DigestException e) {
                throw new IllegalStateException("a SHA-256 value has 32 bytes", e);
            }
            for (int i = 0; i < WORDS; i++) {
                chain[at + i] = (long) LONGS.get(out, i * Long.BYTES);
            }
        }
    }
}

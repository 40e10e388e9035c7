package millrace.engine.kv;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/// What full pages are: tags that digests are bound to, so that the same bytes in another place have another digest.
///
/// ```
///  idTag = first 8 bytes, big-endian, of SHA-256( hₖ₊₁ ‖ LE32(layer group) ‖ LE32(k) )        hₖ₊₁ as in [ChainHash]
/// ```
///
/// The chain's hash covers model, formats, arithmetic, salt and all tokens up to the page's end; a page holds all layers,
/// which is layer group 0. The digests themselves are those of [millrace.engine.kernel.CacheMemory.Algorithm].
///
/// Used by one thread at a time; nothing is allocated after construction.
final class PageSeal {
    /// The digest of a page that is not sealed.
    static final long POISON = -1;

    private static final VarHandle LE_INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle BE_LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private final MessageDigest sha;
    private final byte[] name = new byte[ChainHash.WORDS * Long.BYTES + 2 * Integer.BYTES];
    private final byte[] hash = new byte[ChainHash.WORDS * Long.BYTES];

    PageSeal() {
        try {
            sha = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    /// What page k of a chain is, for a group of layers.
    ///
    /// @param chain the hash hₖ₊₁ at `chain[WORDS · (k + 1) …]`
    long idTag(long[] chain, int k, int layerGroup) {
        for (int i = 0; i < ChainHash.WORDS; i++) {
            BE_LONGS.set(name, i * Long.BYTES, chain[ChainHash.WORDS * (k + 1) + i]);
        }
        LE_INTS.set(name, ChainHash.WORDS * Long.BYTES, layerGroup);
        LE_INTS.set(name, ChainHash.WORDS * Long.BYTES + Integer.BYTES, k);
        sha.update(name);
        try {
            sha.digest(hash, 0, hash.length);
        } catch (java.security.DigestException e) {
            throw new IllegalStateException("a SHA-256 value has 32 bytes", e);
        }
        return (long) BE_LONGS.get(hash, 0);
    }

    /// The digest as it is kept: never [#POISON].
    static long kept(long digest) {
        return digest == POISON ? 0 : digest;
    }
}

package millrace.engine.kv;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.zip.CRC32C;

/// Digests of full pages, bound to what the page is: the same bytes in another place have another digest.
///
/// ```
///  idTag = first 8 bytes, big-endian, of SHA-256( hₖ₊₁ ‖ LE32(layer group) ‖ LE32(k) )        hₖ₊₁ as in [ChainHash]
///  CRC32C:  CRC-32C( LE64(idTag) ‖ page )
///  W64:     Σ (wᵢ + 1) · (splitmix64(idTag + i) | 1)  mod 2⁶⁴      wᵢ: the page's words of 32 bits, little-endian
/// ```
///
/// The chain's hash covers model, formats, arithmetic, salt and all tokens up to the page's end; a page holds all layers,
/// which is layer group 0. CRC-32C is the fastest on a CPU; W64 is a sum of integers, so a device may add in any order and
/// gets the same bits, and a change within one word is always found. Neither is cryptographic: they stand against accidents.
///
/// Used by one thread at a time; nothing is allocated after construction.
final class PageSeal {
    /// The digest of a page that is not sealed.
    static final long POISON = -1;

    private static final VarHandle LE_LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LE_INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle BE_LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private final PageGuard.Algorithm algorithm;
    private final CRC32C crc = new CRC32C();
    private final byte[] tagBytes = new byte[Long.BYTES];
    private final MessageDigest sha;
    private final byte[] name = new byte[ChainHash.WORDS * Long.BYTES + 2 * Integer.BYTES];
    private final byte[] hash = new byte[ChainHash.WORDS * Long.BYTES];

    PageSeal(PageGuard.Algorithm algorithm) {
        this.algorithm = algorithm;
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

    /// The digest of `memory[at … at + bytes)`; never [#POISON].
    ///
    /// @param memory little-endian, its position and limit are changed
    long digest(long idTag, ByteBuffer memory, int at, int bytes) {
        long digest = switch (algorithm) {
            case CRC32C -> crc32c(idTag, memory, at, bytes);
            case W64 -> w64(idTag, memory, at, bytes);
        };
        return digest == POISON ? 0 : digest;
    }

    private long crc32c(long idTag, ByteBuffer memory, int at, int bytes) {
        crc.reset();
        LE_LONGS.set(tagBytes, 0, idTag);
        crc.update(tagBytes);
        memory.limit(at + bytes).position(at);
        crc.update(memory);
        return crc.getValue();
    }

    static long w64(long idTag, ByteBuffer memory, int at, int bytes) {
        long sum = 0;
        int words = bytes / Integer.BYTES;
        for (int i = 0; i < words; i++) {
            long word = memory.getInt(at + i * Integer.BYTES) & 0xFFFFFFFFL;
            sum += (word + 1) * (splitmix64(idTag + i) | 1);
        }
        return sum;
    }

    private static long splitmix64(long x) {
        long z = x + 0x9E3779B97F4A7C15L;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }
}

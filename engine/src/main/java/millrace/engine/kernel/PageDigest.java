package millrace.engine.kernel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;

/// Digests of memory as [CacheMemory.Algorithm] defines them. Used by one thread at a time; nothing is allocated after
/// construction.
public final class PageDigest {
    private static final VarHandle LE_LONGS = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private final CRC32C crc = new CRC32C();
    private final byte[] tagBytes = new byte[Long.BYTES];

    /// The digest of `memory[at … at + bytes)`.
    ///
    /// @param memory little-endian, its position and limit are changed
    /// @param bytes a multiple of 4
    public long of(CacheMemory.Algorithm algorithm, long tag, ByteBuffer memory, int at, int bytes) {
        return switch (algorithm) {
            case CRC32C -> crc32c(tag, memory, at, bytes);
            case W64 -> w64(tag, 0, memory, at, bytes);
        };
    }

    private long crc32c(long tag, ByteBuffer memory, int at, int bytes) {
        crc.reset();
        LE_LONGS.set(tagBytes, 0, tag);
        crc.update(tagBytes);
        memory.limit(at + bytes).position(at);
        crc.update(memory);
        return crc.getValue();
    }

    /// A part of the sum W64: that of the words `memory[at … at + bytes)`, the first of which is word `first`.
    public static long w64(long tag, long first, ByteBuffer memory, int at, int bytes) {
        long sum = 0;
        int words = bytes / Integer.BYTES;
        for (int i = 0; i < words; i++) {
            long word = memory.getInt(at + i * Integer.BYTES) & 0xFFFFFFFFL;
            sum += (word + 1) * (splitmix64(tag + first + i) | 1);
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

package millrace.engine.weights;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.security.MessageDigest;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/// CRC-32C of a tensor's stored bytes, block by block; the last block may be shorter.
final class BlockSums {
    /// Bytes of a block.
    static final int BLOCK = 1 << 20;

    /// Bytes that are read at once.
    static final int PIECE = 1 << 16;

    private BlockSums() {}

    static int blocks(long bytes) {
        return Math.toIntExact((bytes + BLOCK - 1) / BLOCK);
    }

    /// All blocks, and the same bytes into a digest: both see one reading of each byte.
    ///
    /// @param piece a buffer of [#PIECE] bytes
    static int[] of(MemorySegment data, MessageDigest digest, byte[] piece) {
        int[] sums = new int[blocks(data.byteSize())];
        for (int block = 0; block < sums.length; block++) {
            sums[block] = sum(data, block, piece, digest);
        }
        return sums;
    }

    /// One block.
    static int of(MemorySegment data, int block) {
        return sum(data, block, new byte[(int) Math.min(PIECE, data.byteSize())], null);
    }

    private static int sum(
            MemorySegment data, int block, byte[] piece, @Nullable MessageDigest digest) {
        CRC32C crc = new CRC32C();
        long end = Math.min(data.byteSize(), (block + 1L) * BLOCK);
        for (long at = (long) block * BLOCK; at < end; at += piece.length) {
            int length = (int) Math.min(piece.length, end - at);
            MemorySegment.copy(data, ValueLayout.JAVA_BYTE, at, piece, 0, length);
            crc.update(piece, 0, length);
            if (digest != null) {
                digest.update(piece, 0, length);
            }
        }
        return (int) crc.getValue();
    }
}

package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// Digests W64 of device memory, where it lies: digest.cu. The values of [millrace.engine.kernel.PageDigest].
///
/// A digest is a sum of integers, so each piece is cut into parts for as many blocks, whose sums are added here. One thread
/// at a time, any; nothing is allocated after construction. What was queued on the stream before is digested as it then is.
final class CudaDigests {
    /// Bytes of a part: DIGEST_PART words in digest.cu.
    private static final int PART_BYTES = 4 * 8192;

    /// DigestPiece in digest.cu: address, tag, words.
    private static final int PIECE_BYTES = 24;
    private static final int TAG_AT = 8;
    private static final int WORDS_AT = 16;

    private static final int THREADS = 256;
    private static final int SHARED = Long.BYTES * THREADS / 32;

    /// The most pieces of a launch, and the most sums.
    private static final int MOST_PIECES = 2_048;
    private static final int MOST_SUMS = 1 << 15;

    /// The largest piece: all parts of one launch.
    static final long MOST_BYTES = (long) MOST_SUMS * PART_BYTES;

    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;

    private final Gpu gpu;
    private final Launch launch;
    private final MemorySegment pieces;
    private final MemorySegment sums;
    private final long piecesAddress;
    private final long sumsAddress;
    private final Copy sendPieces;
    private final Copy fetchSums;
    private final long[] oneAddress = new long[1];
    private final long[] oneTag = new long[1];
    private final long[] oneDigest = new long[1];

    CudaDigests(Gpu gpu) {
        this.gpu = gpu;
        // One of its own, so that any thread may have digests made.
        launch = new Launch(gpu, gpu.kernel("digest_w64"));
        pieces = gpu.pinned((long) PIECE_BYTES * MOST_PIECES);
        sums = gpu.pinned((long) Long.BYTES * MOST_SUMS);
        piecesAddress = gpu.allocate(pieces.byteSize(), "digests");
        sumsAddress = gpu.allocate(sums.byteSize(), "digests");
        sendPieces = gpu.copy(pieces, piecesAddress);
        fetchSums = gpu.copy(sums, sumsAddress);
    }

    /// Digests `count` pieces of one size: `digests[i]` becomes that of `addresses[i]` under `tags[i]`. Waits for it.
    ///
    /// @param addresses multiples of 4
    /// @param bytes a multiple of 4, at most [#MOST_BYTES]
    void digest(int count, long[] addresses, long bytes, long[] tags, long[] digests) {
        if (bytes < 0 || bytes % Integer.BYTES != 0 || bytes > MOST_BYTES) {
            throw new IllegalArgumentException("digest: expected whole words, at most " + MOST_BYTES + " bytes, got " + bytes);
        }
        int parts = Math.max(1, (int) Math.ceilDiv(bytes, PART_BYTES));
        int most = Math.min(MOST_PIECES, MOST_SUMS / parts);
        for (int from = 0; from < count; from += most) {
            run(from, Math.min(most, count - from), parts, addresses, bytes, tags, digests);
        }
    }

    /// The digest of one piece.
    long digest(long address, long bytes, long tag) {
        oneAddress[0] = address;
        oneTag[0] = tag;
        digest(1, oneAddress, bytes, oneTag, oneDigest);
        return oneDigest[0];
    }

    private void run(int from, int n, int parts, long[] addresses, long bytes, long[] tags, long[] digests) {
        for (int i = 0; i < n; i++) {
            long at = (long) PIECE_BYTES * i;
            pieces.set(LONG, at, addresses[from + i]);
            pieces.set(LONG, at + TAG_AT, tags[from + i]);
            pieces.set(LONG, at + WORDS_AT, bytes / Integer.BYTES);
        }
        sendPieces.send((long) PIECE_BYTES * n);
        launch.restart().ptr(sumsAddress).ptr(piecesAddress).run(parts, n, 1, THREADS, SHARED);
        fetchSums.fetch((long) Long.BYTES * n * parts);
        gpu.synchronize();
        for (int i = 0; i < n; i++) {
            long sum = 0;
            for (int p = 0; p < parts; p++) {
                sum += sums.getAtIndex(LONG, (long) i * parts + p);
            }
            digests[from + i] = sum;
        }
    }
}

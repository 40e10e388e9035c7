package millrace.engine.resident;

/// Bytes that steps read and nobody writes after the load, cut into blocks.
///
/// A block is checked as it lies in memory, and, where it is compressed, also as the numbers that it decodes to. Safe
/// for any thread, as long as nobody [#restore]s.
public sealed interface Region permits MatrixRegion, ArrayRegion, CopyRegion {
    /// The most bytes of a block, unless a single panel has more.
    long BLOCK_BYTES = 1 << 20;

    /// Name of the tensor that it was made from, and of the part if there are several.
    String name();

    /// The id of the format in memory.
    String format();

    /// The matrix, the array or the copy whose bytes these are.
    Object memory();

    int blocks();

    /// Where a block begins, in bytes from the region's first.
    long start(int block);

    long bytes(int block);

    default long bytes() {
        return start(blocks() - 1) + bytes(blocks() - 1);
    }

    /// CRC-32C of a block's bytes as they are now.
    int checksum(int block);

    /// Whether [#numbersChecksum] knows what a block holds, because it was packed here.
    default boolean compressed() {
        return false;
    }

    /// Checksum of the numbers of a compressed block before they were packed: CRC-32C over the CRC-32C of each of its
    /// panels, little-endian. 0 for what is not compressed.
    default int numbersChecksum(int block) {
        return 0;
    }

    /// The same of the numbers that it decodes to now.
    ///
    /// @throws IllegalArgumentException for a block that is not even well-formed
    default int decodedChecksum(int block) {
        return 0;
    }

    /// Copies a block from the same region, made again.
    void restore(int block, Region from);
}

package millrace.engine.kernel;

import java.lang.foreign.MemorySegment;

/// Memory for the pages of a KV cache, where the operations of a backend read and write them, and what is done to whole
/// pages there: digests, tests of the memory itself, copies.
///
/// A page is named by its absolute address in this memory. Used by one thread at a time.
public interface CacheMemory extends AutoCloseable {
    /// Two patterns, one the complement of the other, that a sound page holds in every word.
    long PATTERN = 0x5555_5555_5555_5555L;

    /// Digests of pages, with their numbers in documents; `page` is the bytes of the page.
    ///
    /// ```
    ///  CRC32C:  CRC-32C( LE64(tag) ‖ page )
    ///  W64:     Σ (wᵢ + 1) · (splitmix64(tag + i) | 1)  mod 2⁶⁴      wᵢ: the page's words of 32 bits, little-endian
    /// ```
    ///
    /// CRC-32C is the fastest on a CPU; W64 is a sum of integers, so a device may add in any order and gets the same
    /// bits, and a change within one word is always found. Neither is cryptographic: they stand against accidents.
    enum Algorithm {
        /// CRC-32C.
        CRC32C(1),
        /// A weighted sum of words, the same on every device.
        W64(2);

        private final int id;

        Algorithm(int id) {
            this.id = id;
        }

        public int id() {
            return id;
        }
    }

    /// How pages are digested here.
    Algorithm algorithm();

    /// Memory for pages that stand behind one another, aligned to 64 bytes, until this is closed.
    ///
    /// @return its absolute address
    /// @throws millrace.engine.BackendException if there is not so much
    long allocate(long bytes);

    /// Digests the first `count` pages as they are now: `digests[i]` becomes that of page `pages[i]` under `tags[i]`.
    ///
    /// @param pages absolute addresses
    /// @param bytes of a page, a multiple of 64
    void digest(int count, long[] pages, int bytes, long[] tags, long[] digests);

    /// Whether every bit of a page can be 0 and can be 1: writes [#PATTERN], then its complement, and reads each back.
    /// What the page held is lost.
    boolean keepsBits(long page, int bytes);

    /// Says by which hand-out a page is held from now on: what [Kernels#firstForeign] compares.
    ///
    /// @param bytes of a page, always the same
    default void own(long page, int bytes, int epoch) {}

    /// Copies bytes from an absolute address into `to`.
    void read(long address, MemorySegment to);

    /// Copies bytes of `from` to an absolute address.
    void write(long address, MemorySegment from);

    /// Gives the memory back.
    @Override
    void close();
}

package millrace.engine.kernel;

/// A copy of adopted weights in a backend's own memory, cut into blocks, for those who check them. Safe for any thread.
public interface WeightCopy {
    /// The matrix or the array that was adopted.
    Object source();

    /// What part of the source this is a copy of; empty if it is all of it.
    String part();

    /// Absolute address in the backend's memory.
    long address();

    long bytes();

    /// At least one.
    int blocks();

    /// Where a block begins, in bytes; block [#blocks] would begin at [#bytes].
    long start(int block);

    /// The digest W64 that the block's bytes had on the host when they were copied, see [CacheMemory.Algorithm].
    long expected(int block);

    /// The digest of the block as it lies in the backend's memory now.
    long digest(int block);

    /// Copies all of it again, from the source as it is now. On the backend's own thread, between two steps.
    void restore();
}

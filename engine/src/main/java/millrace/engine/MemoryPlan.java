package millrace.engine;

/// How one budget of memory is split. All figures are bytes.
///
/// @param budget what may be taken in all
/// @param weights matrices and vectors as they stay in memory, and the checksums of their blocks
/// @param scratch results between operations, for the largest step; on a device also tables and what is kept for those
///        that grow with use
/// @param runtime the rest of the Java process: heap, code, classes, as measured when the model was open; 0 of a device's
///        memory, in which it has no part
/// @param kv the most that pages of the KV cache may take; they are taken when first used
public record MemoryPlan(long budget, long weights, long scratch, long runtime, long kv) {
    public static final MemoryPlan NONE = new MemoryPlan(0, 0, 0, 0, 0);

    /// All parts together: what the process takes at most once every page is in use.
    public long total() {
        return weights + scratch + runtime + kv;
    }

    /// The plan as one line of the start-up story.
    ///
    /// @param kvTokens tokens that all pages hold
    /// @param context tokens of the longest sequence
    public String describe(long kvTokens, int context) {
        return "memory " + mebibytes(total()) + " of " + mebibytes(budget) + " MiB: weights " + mebibytes(weights)
                + ", KV cache " + mebibytes(kv) + ", scratch " + mebibytes(scratch) + ", process "
                + mebibytes(runtime) + "; " + kvTokens + " tokens fit, " + kvTokens / context + " sequences of "
                + context;
    }

    private static long mebibytes(long bytes) {
        return (bytes + (1 << 20) - 1) >> 20;
    }
}

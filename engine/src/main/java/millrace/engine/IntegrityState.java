package millrace.engine;

/// What the checks of an engine say now.
///
/// @param admitting whether new work is started; false while a fault is repaired, and after one that could not be
/// @param scrubGeneration passes over all resident weights that were finished
/// @param scrubAgeMs age of the oldest check of a resident weight block; -1 where weights are not watched
/// @param canaryAgeMs since the golden prompt last passed; -1 where there is none, or it has not run yet
/// @param weightFaults resident blocks that were found damaged
/// @param kvFaults KV pages that were found damaged
/// @param computeFaults steps whose numbers were refused
/// @param canaryFailures golden prompts that did not pass
public record IntegrityState(
        boolean admitting,
        long scrubGeneration,
        long scrubAgeMs,
        long canaryAgeMs,
        long weightFaults,
        long kvFaults,
        long computeFaults,
        long canaryFailures) {
    public static final IntegrityState NONE = new IntegrityState(true, 0, -1, -1, 0, 0, 0, 0);
}

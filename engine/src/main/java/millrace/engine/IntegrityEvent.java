package millrace.engine;

/// Something that a check of the engine found out; the service writes it to the audit log.
///
/// @param number from 1, in the order of events of one engine
/// @param code stable, see docs/formats.md; empty where all is well
/// @param detail facts as words of the form name=value, joined by spaces; never content
/// @param epochMs when, milliseconds since the epoch
/// @param suspectFromStep the first step whose results may be wrong, as in [Transcript#lastStep]; [#NO_STEP] if none is
public record IntegrityEvent(
        long number, Kind kind, Result result, String code, String detail, long epochMs, long suspectFromStep) {

    /// No step is in doubt.
    public static final long NO_STEP = Long.MAX_VALUE;

    /// What was checked.
    public enum Kind {
        /// A block of resident weights.
        WEIGHT,
        /// A page of the KV cache.
        KV_PAGE,
        /// Numbers that were computed.
        COMPUTE,
        /// The golden prompt.
        CANARY,
        /// A file of the model, read once more.
        MODEL_FILE,
        /// The table of checksums itself.
        META,
        /// A whole pass over the resident weights.
        SCRUB,
        /// The device that computes: it can do nothing more.
        DEVICE
    }

    /// How it ended.
    public enum Result {
        /// As it should be.
        PASSED,
        /// Damaged, and made good.
        REPAIRED,
        /// Damaged, and the engine takes no more work.
        REFUSED
    }
}

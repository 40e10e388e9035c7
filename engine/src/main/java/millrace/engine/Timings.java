package millrace.engine;

/// Where the time of one generation went, in nanoseconds: `queued` from submit to the first step, `firstToken` from
/// submit to the first generated token, `decode` from the first to the last generated token.
public record Timings(long queuedNanos, long firstTokenNanos, long decodeNanos) {
    public static final Timings NONE = new Timings(0, 0, 0);
}

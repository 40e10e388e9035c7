package millrace.streams;

/// A quota of tokens per minute, of which this process grants the share of the partitions that it has.
///
/// The bucket holds one minute's share and fills evenly. What needs more than a full bucket waits until it is full and
/// leaves it in debt, so that a share that is small delays and never excludes. Over any span of time what was taken, less
/// what was given back, is at most what flowed in, plus the bucket, plus one such debt.
///
/// Whole numbers throughout: a token is `60_000 * parts` units, so that a share of `n` of `parts` of a quota of `q` tokens
/// per minute is `n * q` units each millisecond. Time is that of a [Ticker], which a wall clock that is set does not
/// change. Not for two threads at once.
final class TokenBucket {
    /// The largest quota: no sum overflows with as many partitions as a topic of ours may have.
    static final long MOST_PER_MINUTE = 1_000_000_000L;
    static final int MOST_PARTS = 10_000;
    private static final long DEEPEST = -(Long.MAX_VALUE / 4);
    private static final long MINUTE_MS = 60_000;
    private static final long MS_NANOS = 1_000_000;

    private final int parts;
    private long perMinute;
    private int share;
    private long units;
    private long atNanos;

    /// A full bucket.
    ///
    /// @param perMinute the whole quota, tokens per minute, 1 to [#MOST_PER_MINUTE]
    /// @param share how many of `parts` this process has
    /// @param nowNanos of the ticker
    TokenBucket(long perMinute, int parts, int share, long nowNanos) {
        this.parts = parts;
        this.perMinute = perMinute;
        this.share = share;
        this.atNanos = nowNanos;
        this.units = capacity();
    }

    private long capacity() {
        return perMinute * share * MINUTE_MS;
    }

    private long unitsOf(long tokens) {
        return tokens * MINUTE_MS * parts;
    }

    /// Another quota or share from now on. What is in the bucket stays, up to what it holds now: a rebalance or a
    /// configuration that is read again gives nobody tokens.
    void resize(long perMinute, int share, long nowNanos) {
        fill(nowNanos);
        this.perMinute = perMinute;
        this.share = share;
        units = Math.min(units, capacity());
    }

    private void fill(long nowNanos) {
        long ms = Math.max(0, (nowNanos - atNanos) / MS_NANOS);
        atNanos += ms * MS_NANOS;
        long perMs = perMinute * share;
        if (perMs > 0) {
            long msToFull = (capacity() - units) / perMs + 1;
            units = ms >= msToFull ? capacity() : units + ms * perMs;
        }
    }

    /// How long until so many tokens are granted: 0 now, else the exact number of milliseconds. A minute while the share is
    /// none.
    long waitMs(long tokens, long nowNanos) {
        fill(nowNanos);
        long perMs = perMinute * share;
        if (perMs == 0) {
            return MINUTE_MS;
        }
        long missing = Math.min(unitsOf(tokens), capacity()) - units;
        return missing <= 0 ? 0 : (missing + perMs - 1) / perMs;
    }

    /// Takes so many tokens, into debt if need be.
    void take(long tokens, long nowNanos) {
        fill(nowNanos);
        units = Math.max(DEEPEST, units - unitsOf(tokens));
    }

    /// Gives back what was taken and not used.
    void give(long tokens, long nowNanos) {
        fill(nowNanos);
        units = Math.min(capacity(), units + unitsOf(tokens));
    }

    boolean isFull(long nowNanos) {
        fill(nowNanos);
        return units >= capacity();
    }

    /// Whole tokens in the bucket; negative in debt.
    long tokens(long nowNanos) {
        fill(nowNanos);
        return Math.floorDiv(units, MINUTE_MS * parts);
    }
}

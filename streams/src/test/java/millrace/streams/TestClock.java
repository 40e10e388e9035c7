package millrace.streams;

import java.time.Clock;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;

/// A clock that stands still until it is told otherwise.
final class TestClock extends Clock {
    static final long START_MS = 1_790_000_000_000L;
    private long nowMs = START_MS;

    void advance(long ms) {
        nowMs += ms;
    }

    @Override
    public ZoneId getZone() {
        return ZoneOffset.UTC;
    }

    @Override
    public Clock withZone(ZoneId zone) {
        return this;
    }

    @Override
    public Instant instant() {
        return Instant.ofEpochMilli(nowMs);
    }
}

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

    /// The machine's time that passes, and what this clock was advanced by on top of it.
    Ticker ticker() {
        return new Ticker() {
            @Override
            public long nanos() {
                return System.nanoTime() + (nowMs - START_MS) * 1_000_000L;
            }

            @Override
            public void pause(long ms) throws InterruptedException {
                Thread.sleep(ms);
            }
        };
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

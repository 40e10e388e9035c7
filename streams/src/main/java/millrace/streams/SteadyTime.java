package millrace.streams;

import java.time.Clock;
import org.apache.kafka.common.utils.Time;

/// Kafka Streams' time: begins with the wall clock's and then only passes.
///
/// Its timers fire by `milliseconds()`. By the wall clock, one that is set back by an hour would stop every timer for an
/// hour: no answer would be handed on and no checkpoint signed until the next prompt came.
final class SteadyTime implements Time {
    private final Ticker ticker;
    private final long beganAtMs;
    private final long beganAtNanos;

    SteadyTime(Clock clock, Ticker ticker) {
        this.ticker = ticker;
        beganAtMs = clock.millis();
        beganAtNanos = ticker.nanos();
    }

    @Override
    public long milliseconds() {
        return beganAtMs + (ticker.nanos() - beganAtNanos) / 1_000_000L;
    }

    @Override
    public long nanoseconds() {
        return ticker.nanos();
    }

    @Override
    public void sleep(long ms) {
        try {
            ticker.pause(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

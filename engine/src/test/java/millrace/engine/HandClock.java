package millrace.engine;

import java.util.concurrent.TimeUnit;
import millrace.engine.batch.StepClock;

/// A clock that a test turns: it stands three days after the epoch.
final class HandClock implements StepClock {
    long nanos = TimeUnit.DAYS.toNanos(3);

    @Override
    public long nanos() {
        return nanos;
    }

    @Override
    public long epochMs() {
        return TimeUnit.NANOSECONDS.toMillis(nanos);
    }
}

package millrace.streams;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.util.concurrent.TimeUnit;

/// What becomes of previews.
final class PreviewMeters {
    private static final String DROPPED = "millrace.previews.dropped";
    /// The promise is 50 ms to the consumer.
    private static final double[] SECONDS = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5};

    private final Counter sent;
    private final Counter overflowed;
    private final Counter failed;
    private final Timer delay;

    PreviewMeters(MeterRegistry registry) {
        sent = registry.counter("millrace.previews.sent");
        overflowed = registry.counter(DROPPED, "reason", "overflow");
        failed = registry.counter(DROPPED, "reason", "failed");
        delay = AnswerMeters.timer(registry, "millrace.previews.delay", Tags.empty(), SECONDS);
    }

    /// The brokers have a delta.
    void sent() {
        sent.increment();
    }

    /// How long the brokers had no text, from the moment that its last token was chosen.
    void delayed(long nanos) {
        delay.record(Math.max(0, nanos), TimeUnit.NANOSECONDS);
    }

    /// A delta did not fit into the queue behind the engine.
    void overflowed() {
        overflowed.increment();
    }

    /// The brokers did not take a delta.
    void failed() {
        failed.increment();
    }
}

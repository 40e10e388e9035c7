package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.lang.ref.WeakReference;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class ServiceMetricsTest {
    private final SimpleMeterRegistry meters = new SimpleMeterRegistry();
    private final ServiceMetrics metrics = new ServiceMetrics(meters);

    /// A meter must not stand still once the collector has been by.
    @Test
    void goesOnReadingWhatOthersKeep() throws Exception {
        AtomicLong kept = new AtomicLong(1);
        metrics.counter("test.counter", () -> kept.get(), "kind", "a");
        metrics.gauge("test.gauge", () -> kept.get());
        metrics.ofPartition("test.partition", 3, () -> kept.get());
        metrics.fact("test.fact", "mode", "require");
        WeakReference<Object> collected = new WeakReference<>(new Object());
        while (collected.get() != null) {
            System.gc();
            Thread.sleep(10);
        }
        kept.set(5);
        assertThat(meters.get("test.counter").tag("kind", "a").functionCounter().count()).isEqualTo(5);
        assertThat(meters.get("test.gauge").gauge().value()).isEqualTo(5);
        assertThat(meters.get("test.partition").tag("partition", "3").gauge().value()).isEqualTo(5);
        assertThat(meters.get("test.fact").tag("mode", "require").gauge().value()).isEqualTo(1);
    }
}

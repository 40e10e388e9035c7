package millrace.streams.gateway;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Timer;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/// What the gateway measures.
final class GatewayMetrics {
    private final PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
    private final Timer firstToken = Timer.builder("millrace.gateway.time.to.first.token")
            .description("From the request of a stream to its first text on the wire")
            .serviceLevelObjectives(millis(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)).register(registry);
    private final Counter cancelled = Counter.builder("millrace.gateway.cancelled")
            .description("Prompts that were cancelled because nobody waited any more").register(registry);
    private final Counter streamsFailed = Counter.builder("millrace.gateway.streams.failed")
            .description("Streams that ended with an error after they had begun").register(registry);

    GatewayMetrics(Supplier<Number> inFlight) {
        Gauge.builder("millrace.gateway.in.flight", inFlight).description("Requests that wait for an answer").register(registry);
    }

    private static Duration[] millis(long... millis) {
        return Arrays.stream(millis).mapToObj(Duration::ofMillis).toArray(Duration[]::new);
    }

    /// @param endpoint one of a fixed set, never a path as it came
    void request(String endpoint, int status, long nanos) {
        Timer.builder("millrace.gateway.requests").description("Requests by endpoint and status, and how long they took")
                .tag("endpoint", endpoint).tag("status", Integer.toString(status))
                .serviceLevelObjectives(millis(10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000))
                .register(registry).record(nanos, TimeUnit.NANOSECONDS);
    }

    void firstToken(long nanos) {
        firstToken.record(nanos, TimeUnit.NANOSECONDS);
    }

    void cancelled() {
        cancelled.increment();
    }

    void streamFailed() {
        streamsFailed.increment();
    }

    String scrape() {
        return registry.scrape();
    }
}

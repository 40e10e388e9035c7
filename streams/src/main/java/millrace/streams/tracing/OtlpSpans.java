package millrace.streams.tracing;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.TraceStateBuilder;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporterBuilder;
import io.opentelemetry.sdk.common.export.RetryPolicy;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.sdk.trace.samplers.Sampler;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;

/// Sends spans to a collector by OTLP over HTTP, with the JDK's HTTP client: in batches, from a thread of its own. What a
/// collector does not take in time is dropped; the service never waits for it.
public final class OtlpSpans implements SpanSink {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final Duration EVERY = Duration.ofSeconds(1);
    private static final int MOST_WAITING = 4_096;
    private static final String TRACES = "/v1/traces";

    /// What java.util.logging would write to standard error in a form of its own. Held, for it holds its loggers weakly.
    private final Logger exporterLog = Logger.getLogger("io.opentelemetry");
    private final SdkTracerProvider provider;
    private final Tracer tracer;

    private OtlpSpans(SdkTracerProvider provider) {
        this.provider = provider;
        this.tracer = provider.get("millrace");
        exporterLog.setUseParentHandlers(false);
        if (exporterLog.getHandlers().length == 0) {
            exporterLog.addHandler(new Forwarding());
        }
    }

    /// @param endpoint of the collector; without a path that of traces is meant
    /// @param headers that the collector wants, such as an authorization
    /// @param ratio of the prompts that begin a trace of their own which are recorded; those that come with a context follow it
    /// @param resource attributes of this service
    /// @throws IllegalArgumentException if the endpoint is no URL of http or https
    public static OtlpSpans open(String endpoint, Map<String, String> headers, double ratio, Map<String, String> resource) {
        OtlpHttpSpanExporterBuilder exporter = OtlpHttpSpanExporter.builder()
                .setEndpoint(traces(endpoint)).setTimeout(TIMEOUT).setCompression("gzip")
                .setRetryPolicy(RetryPolicy.builder().setMaxAttempts(2).setInitialBackoff(EVERY).setMaxBackoff(EVERY).build());
        headers.forEach(exporter::addHeader);
        var attributes = Attributes.builder();
        resource.forEach(attributes::put);
        return new OtlpSpans(SdkTracerProvider.builder()
                .setResource(Resource.getDefault().merge(Resource.create(attributes.build())))
                .setSampler(Sampler.parentBased(Sampler.traceIdRatioBased(ratio)))
                .addSpanProcessor(BatchSpanProcessor.builder(exporter.build())
                        .setScheduleDelay(EVERY).setExporterTimeout(TIMEOUT).setMaxQueueSize(MOST_WAITING).build())
                .build());
    }

    /// The address that spans are sent to.
    static String traces(String endpoint) {
        try {
            URI uri = URI.create(endpoint);
            if (uri.getHost() != null && ("http".equals(uri.getScheme()) || "https".equals(uri.getScheme()))) {
                return uri.getPath().isEmpty() || uri.getPath().equals("/") ? endpoint.replaceFirst("/$", "") + TRACES : endpoint;
            }
        } catch (IllegalArgumentException e) {
            // Refused below.
        }
        throw new IllegalArgumentException("expected http://HOST:PORT or https://HOST:PORT, got \""
                + endpoint.substring(0, Math.min(endpoint.length(), 100)) + "\"");
    }

    @Override
    public TraceContext record(@Nullable TraceContext parent, SpanFact span, List<SpanFact> within) {
        Context root = parent == null
                ? Context.root()
                : Context.root().with(Span.wrap(SpanContext.createFromRemoteParent(
                        parent.traceId(), parent.spanId(), TraceFlags.fromByte((byte) parent.flags()), state(parent.state()))));
        Span outer = begin(root, span);
        Span last = outer;
        for (SpanFact inner : within) {
            last = begin(root.with(outer), inner);
            last.end(inner.endNanos(), TimeUnit.NANOSECONDS);
        }
        outer.end(span.endNanos(), TimeUnit.NANOSECONDS);
        SpanContext at = last.getSpanContext();
        return new TraceContext(
                at.getTraceId(), at.getSpanId(), at.getTraceFlags().asByte() & 0xff, parent == null ? "" : parent.state());
    }

    /// Entries that are not well-formed are left out of the spans.
    private static TraceState state(String text) {
        TraceStateBuilder state = TraceState.builder();
        List<String> entries = List.of(text.split(","));
        for (String entry : entries.reversed()) { // the builder puts each before those that it has
            int equals = entry.indexOf('=');
            if (equals > 0) {
                state.put(entry.substring(0, equals).strip(), entry.substring(equals + 1).strip());
            }
        }
        return state.build();
    }

    private Span begin(Context in, SpanFact fact) {
        SpanBuilder builder = tracer.spanBuilder(fact.name()).setParent(in).setSpanKind(switch (fact.kind()) {
            case CONSUMER -> SpanKind.CONSUMER;
            case PRODUCER -> SpanKind.PRODUCER;
            case INTERNAL -> SpanKind.INTERNAL;
        }).setStartTimestamp(fact.beginNanos(), TimeUnit.NANOSECONDS);
        fact.attributes().forEach((name, value) -> {
            switch (value) {
                case Long whole -> builder.setAttribute(name, whole);
                case Double number -> builder.setAttribute(name, number);
                case String[] texts -> builder.setAttribute(AttributeKey.stringArrayKey(name), List.of(texts));
                default -> builder.setAttribute(name, value.toString());
            }
        });
        Span span = builder.startSpan();
        if (!fact.error().isEmpty()) {
            span.setStatus(StatusCode.ERROR, fact.error());
        }
        return span;
    }

    /// Sends what is waiting, for some seconds if need be.
    @Override
    public void close() {
        provider.shutdown().join(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
    }

    private static final class Forwarding extends Handler {
        private final org.slf4j.Logger log = LoggerFactory.getLogger(OtlpSpans.class);

        @Override
        public void publish(LogRecord record) {
            if (record.getLevel().intValue() >= Level.WARNING.intValue()) {
                log.warn("spans: {}", record.getMessage());
            } else {
                log.debug("spans: {}", record.getMessage());
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }
}

package millrace.streams;

import millrace.streams.tracing.TraceContext;
import org.slf4j.MDC;

/// Says to everything that is logged within which prompt record it is about.
final class LogContext implements AutoCloseable {
    private LogContext() {}

    static LogContext of(Source source) {
        MDC.put("partition", Integer.toString(source.partition()));
        MDC.put("offset", Long.toString(source.offset()));
        TraceContext.of(source.headers()).ifPresent(trace -> MDC.put("trace_id", trace.traceId()));
        return new LogContext();
    }

    @Override
    public void close() {
        MDC.remove("partition");
        MDC.remove("offset");
        MDC.remove("trace_id");
    }
}

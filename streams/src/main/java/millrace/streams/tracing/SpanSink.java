package millrace.streams.tracing;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// Where spans go.
public interface SpanSink extends AutoCloseable {
    /// Records a span and those within it. Any thread; returns at once.
    ///
    /// @param parent what it is a part of, or null to begin a trace
    /// @param within spans within the first, in order
    /// @return the context of the last span, for whoever comes after it
    TraceContext record(@Nullable TraceContext parent, SpanFact span, List<SpanFact> within);

    @Override
    void close();
}

/// Traces: the context that a prompt brings along in W3C's headers, and spans of its way through the service, sent by
/// OpenTelemetry's exporter where one is configured. Nothing else of OpenTelemetry is used anywhere.
@NullMarked
package millrace.streams.tracing;

import org.jspecify.annotations.NullMarked;

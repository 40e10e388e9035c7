package millrace.streams.tracing;

import java.util.Map;

/// One step on a prompt's way, once it is over.
///
/// @param beginNanos since the epoch, UTC; so is `endNanos`
/// @param attributes texts, whole numbers (`Long`), numbers (`Double`) or lists of texts (`String[]`); never content
/// @param error a stable code where it failed; empty otherwise
public record SpanFact(String name, Kind kind, long beginNanos, long endNanos, Map<String, Object> attributes, String error) {
    /// The side of a message that it is on.
    public enum Kind { CONSUMER, PRODUCER, INTERNAL }

    public SpanFact {
        attributes = Map.copyOf(attributes);
    }
}

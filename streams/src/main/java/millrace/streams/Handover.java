package millrace.streams;

import java.util.List;
import millrace.engine.IntegrityEvent;

/// What one turn of the stream thread hands on to the log, in the order in which it is to be written.
///
/// The events were read before the engine was asked whether it trusts the answers: an answer that comes with an event
/// was found good in the knowledge of it.
///
/// @param events of the engine that the log does not have yet, oldest first
record Handover(List<IntegrityEvent> events, List<Outcome> outcomes) {
    Handover {
        events = List.copyOf(events);
        outcomes = List.copyOf(outcomes);
    }
}

/// What a cluster brings along when there is none: a single-node Kafka broker and a schema registry, in this process.
///
/// Both are the real thing to an outside client: the broker is Kafka's own server on a TCP port, the registry speaks
/// Confluent's REST interface and keeps its state in the broker's `_schemas` topic in Confluent's record format.
@NullMarked
package millrace.streams.embedded;

import org.jspecify.annotations.NullMarked;

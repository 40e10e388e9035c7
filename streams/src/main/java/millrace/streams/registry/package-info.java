/// Avro records on the wire: the client of a schema registry, and Kafka serializers in Confluent's wire format.
///
/// ```
///  record ──AvroEncoder──▶ 0x00 │ int32 id │ Avro binary ──AvroDecoder──▶ record
///              │                                               │
///              └────────── SchemaRegistryClient ───────────────┘
/// ```
///
/// Configuration uses Confluent's names, so that a configuration written for their serializers works with these.
@NullMarked
package millrace.streams.registry;

import org.jspecify.annotations.NullMarked;

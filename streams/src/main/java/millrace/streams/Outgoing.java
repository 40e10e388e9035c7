package millrace.streams;

import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.jspecify.annotations.Nullable;

/// An encoded record on its way to a sink.
///
/// The partition travels with the value, so that the sinks' partitioner is a pure function of it: an outcome goes to
/// the partition that its prompt came from, and the audit log of a partition has one writer.
///
/// @param bytes null erases what was written under the same key
record Outgoing(int partition, byte @Nullable [] bytes) {
    static final Serializer<Outgoing> SERIALIZER = (topic, value) -> value == null ? null : value.bytes();

    @SuppressWarnings("removal") // the one abstract method that a lambda can be; its successor's default calls it
    static final StreamPartitioner<byte[], Outgoing> SAME_PARTITION = (topic, key, value, partitions) ->
            java.util.Optional.of(java.util.Set.of(value.partition() % partitions));
}

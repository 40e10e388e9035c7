package millrace.integrity.audit;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import millrace.integrity.NoteVerifier;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;

/// What to verify, and against what.
///
/// @param client properties of a Kafka consumer, `bootstrap.servers` among them; what the reading itself needs is set
///     over them
/// @param topic the audit topic
/// @param checkpointsTopic where checkpoints are; null to verify none
/// @param completionsTopic where completions are; null to match none
/// @param partition the only partition of the audit topic to look at; null for all
/// @param keys that may sign checkpoints; empty leaves signatures unchecked, and the report says so
/// @param settle how long to wait for what one topic shows and another does not yet: the parts of a transaction become
///     visible one after the other. Twice the writers' transaction timeout is enough
/// @param stall how long to wait for a broker that sends nothing before giving up
/// @param resolver gives the schema of a registry's id; null tries the schemas that records were ever released with
/// @param witnesses whose cosignatures are demanded; null for none
public record AuditOptions(
        Map<String, Object> client,
        String topic,
        @Nullable String checkpointsTopic,
        @Nullable String completionsTopic,
        @Nullable Integer partition,
        List<NoteVerifier> keys,
        Duration settle,
        Duration stall,
        @Nullable IntFunction<Schema> resolver,
        @Nullable WitnessPolicy witnesses) {

    public static final Duration DEFAULT_SETTLE = Duration.ofSeconds(20);
    public static final Duration DEFAULT_STALL = Duration.ofSeconds(60);

    public AuditOptions {
        client = Map.copyOf(client);
        keys = List.copyOf(keys);
    }

    /// All partitions, with the default waits and without a registry.
    public AuditOptions(
            Map<String, Object> client,
            String topic,
            @Nullable String checkpointsTopic,
            @Nullable String completionsTopic,
            List<NoteVerifier> keys) {
        this(client, topic, checkpointsTopic, completionsTopic, null, keys, DEFAULT_SETTLE, DEFAULT_STALL, null, null);
    }

    /// Without a demand for cosignatures.
    public AuditOptions(
            Map<String, Object> client,
            String topic,
            @Nullable String checkpointsTopic,
            @Nullable String completionsTopic,
            @Nullable Integer partition,
            List<NoteVerifier> keys,
            Duration settle,
            Duration stall,
            @Nullable IntFunction<Schema> resolver) {
        this(client, topic, checkpointsTopic, completionsTopic, partition, keys, settle, stall, resolver, null);
    }

    /// The same with cosignatures demanded.
    public AuditOptions with(WitnessPolicy policy) {
        return new AuditOptions(client, topic, checkpointsTopic, completionsTopic, partition, keys, settle, stall,
                resolver, policy);
    }

    /// The same of one partition of the audit topic.
    public AuditOptions only(int number) {
        return new AuditOptions(client, topic, checkpointsTopic, completionsTopic, number, keys, settle, stall, resolver,
                witnesses);
    }

    /// Leaves out the values: properties may hold passwords.
    @Override
    public String toString() {
        return "AuditOptions[topic=%s, checkpointsTopic=%s, completionsTopic=%s, partition=%s, keys=%s]"
                .formatted(topic, checkpointsTopic, completionsTopic, partition, keys);
    }
}

package millrace.streams;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/// The map of the service: every node, store and topic is named here and nowhere else.
final class InferenceTopology {
    private static final String SOURCE = "prompts";
    private static final String INFERENCE = "inference";
    private static final String ATTEST = "attest";
    private static final String CANCELS_SOURCE = "cancels";
    private static final String ORDERS_SOURCE = "control";
    private static final String ORDERS = "orders";

    private InferenceTopology() {}

    static Topology build(ServiceConfig config, InferenceProcessor.Shared inference, AttestProcessor.Shared attest) {
        return addTo(new Topology(), config, inference, attest);
    }

    /// Builds on a topology that has nothing in it yet.
    static Topology addTo(
            Topology topology, ServiceConfig config, InferenceProcessor.Shared inference, AttestProcessor.Shared attest) {
        ByteArrayDeserializer in = new ByteArrayDeserializer();
        ByteArraySerializer key = new ByteArraySerializer();
        topology.addSource(SOURCE, in, in, config.string("topics.prompts"));
        topology.addSource(CANCELS_SOURCE, in, in, config.string("topics.cancels"));
        topology.addProcessor(INFERENCE, () -> new InferenceProcessor(inference), SOURCE, CANCELS_SOURCE);
        topology.addSource(ORDERS_SOURCE, in, in, config.string("topics.control"));
        topology.addProcessor(ORDERS,
                () -> new ControlProcessor(attest.keeping().control(), attest.metrics(), attest.clock()), ORDERS_SOURCE);
        topology.addProcessor(ATTEST, () -> new AttestProcessor(attest, inference.clients()), INFERENCE, ORDERS);
        sink(topology, AttestProcessor.COMPLETIONS_SINK, config.string("topics.completions"), key);
        sink(topology, AttestProcessor.AUDIT_SINK, config.string("topics.audit"), key);
        sink(topology, AttestProcessor.CHECKPOINTS_SINK, config.string("topics.checkpoints"), key);
        sink(topology, AttestProcessor.DLQ_SINK, config.string("topics.dlq"), key);
        sink(topology, AttestProcessor.SALTS_SINK, config.string("topics.salts"), key);
        boolean memory = config.string("store.type").equals("memory");
        topology.addStateStore(keyValue(InferenceProcessor.PENDING_STORE, memory, config), INFERENCE);
        topology.addStateStore(window(InferenceProcessor.SEEN_STORE, memory, config), INFERENCE);
        topology.addStateStore(window(InferenceProcessor.CANCELLED_STORE, memory, config), INFERENCE);
        topology.addStateStore(keyValue(AuditLog.STORE, memory, config), ATTEST);
        topology.addStateStore(keyValue(TenantKeys.STORE, memory, config), ATTEST);
        return topology;
    }

    private static void sink(Topology topology, String node, String topic, ByteArraySerializer key) {
        topology.addSink(node, topic, key, Outgoing.SERIALIZER, Outgoing.SAME_PARTITION, ATTEST);
    }

    /// Small segments, compacted soon: otherwise the open segment of 1 GB holds every prompt ever seen, and a restart
    /// restores them all.
    private static Map<String, String> changelog(ServiceConfig config) {
        return Map.of(
                "segment.bytes", Integer.toString(16 << 20),
                "min.cleanable.dirty.ratio", "0.1",
                "max.compaction.lag.ms", "60000",
                "max.message.bytes", Integer.toString(ProducerLimits.maxRequestBytes(config)));
    }

    private static StoreBuilder<?> keyValue(String name, boolean memory, ServiceConfig config) {
        KeyValueBytesStoreSupplier where = memory ? Stores.inMemoryKeyValueStore(name) : Stores.persistentKeyValueStore(name);
        return Stores.keyValueStoreBuilder(where, Serdes.Bytes(), Serdes.ByteArray())
                .withLoggingEnabled(changelog(config))
                .withCachingDisabled();
    }

    private static StoreBuilder<?> window(String name, boolean memory, ServiceConfig config) {
        Duration retention = config.duration("intake.dedup.retention.ms");
        WindowBytesStoreSupplier where = memory
                ? Stores.inMemoryWindowStore(name, retention, retention, false)
                : Stores.persistentWindowStore(name, retention, retention, false);
        return Stores.windowStoreBuilder(where, Serdes.Bytes(), Serdes.ByteArray())
                .withLoggingEnabled(changelog(config))
                .withCachingDisabled();
    }
}

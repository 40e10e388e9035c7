package millrace.streams.registry;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Serializer;
import org.jspecify.annotations.Nullable;

/// Kafka serializer of Avro records in Confluent's wire format; configured by [RegistryConfig] and [AvroSerdeConfig].
///
/// The first record of a class on a topic asks the registry, all others do not. Null becomes null (a tombstone).
public final class AvroSerializer<T extends SpecificRecord> implements Serializer<T> {
    private final @Nullable SchemaRegistryClient shared;
    private final Map<Target, AvroEncoder<T>> encoders = new ConcurrentHashMap<>();
    private @Nullable SchemaRegistryClient registry;
    private @Nullable AvroSerdeConfig config;
    private boolean isKey;

    private record Target(String topic, Class<?> type) {}

    /// For use by class name: opens its own client when it is configured.
    public AvroSerializer() {
        this.shared = null;
    }

    /// Uses a client that others use too; [#close] leaves it open.
    public AvroSerializer(SchemaRegistryClient registry) {
        this.shared = registry;
    }

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        this.isKey = isKey;
        this.config = AvroSerdeConfig.of(configs);
        this.registry = shared != null ? shared : SchemaRegistryClient.open(configs);
    }

    @Override
    public byte @Nullable [] serialize(String topic, @Nullable T record) {
        return record == null ? null : encoder(topic, record).encode(record);
    }

    private AvroEncoder<T> encoder(String topic, T record) {
        if (registry == null || config == null) {
            throw new SerializationException("AvroSerializer: expected configure() before serialize()");
        }
        @SuppressWarnings("unchecked") // the class of a T
        Class<T> type = (Class<T>) record.getClass();
        Target target = new Target(topic, type);
        AvroEncoder<T> encoder = encoders.get(target);
        if (encoder == null) {
            String subject = config.subjects(isKey).subject(topic, isKey, record.getSchema().getFullName());
            encoder = AvroEncoder.open(registry, type, subject, config);
            encoders.put(target, encoder);
        }
        return encoder;
    }

    @Override
    public void close() {
        if (shared == null && registry != null) {
            registry.close();
        }
    }
}

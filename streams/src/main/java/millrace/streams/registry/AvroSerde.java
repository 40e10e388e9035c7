package millrace.streams.registry;

import java.util.Map;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;

/// Serde of Avro records of one class in Confluent's wire format: [AvroSerializer] and [AvroDeserializer] together.
public final class AvroSerde<T extends SpecificRecord> implements Serde<T> {
    private final AvroSerializer<T> serializer;
    private final AvroDeserializer<T> deserializer;

    /// For use by class name: see the constructors without arguments of the two halves.
    public AvroSerde() {
        this.serializer = new AvroSerializer<>();
        this.deserializer = new AvroDeserializer<>();
    }

    /// For use in code; opens its own clients when it is configured.
    public AvroSerde(Class<T> type) {
        this.serializer = new AvroSerializer<>();
        this.deserializer = new AvroDeserializer<>(type);
    }

    /// A serde over a client that others use too, already configured.
    public static <T extends SpecificRecord> AvroSerde<T> of(
            SchemaRegistryClient registry, Class<T> type, boolean isKey, Map<String, ?> configs) {
        AvroSerde<T> serde = new AvroSerde<>(registry, type);
        serde.configure(configs, isKey);
        return serde;
    }

    private AvroSerde(SchemaRegistryClient registry, Class<T> type) {
        this.serializer = new AvroSerializer<>(registry);
        this.deserializer = new AvroDeserializer<>(registry, type);
    }

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        serializer.configure(configs, isKey);
        deserializer.configure(configs, isKey);
    }

    @Override
    public Serializer<T> serializer() {
        return serializer;
    }

    @Override
    public Deserializer<T> deserializer() {
        return deserializer;
    }

    @Override
    public void close() {
        serializer.close();
        deserializer.close();
    }
}

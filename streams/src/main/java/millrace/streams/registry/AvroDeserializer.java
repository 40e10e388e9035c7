package millrace.streams.registry;

import java.util.Map;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Deserializer;
import org.jspecify.annotations.Nullable;

/// Kafka deserializer of Avro records in Confluent's wire format; configured by [RegistryConfig] and [AvroSerdeConfig].
///
/// Reads both forms: the id before the body, or a GUID in a header. Null becomes null; what is no record of the class
/// is a [DecodeException], trouble with the registry a [RegistryException].
public final class AvroDeserializer<T extends SpecificRecord> implements Deserializer<T> {
    private final @Nullable SchemaRegistryClient shared;
    private @Nullable Class<T> type;
    private @Nullable SchemaRegistryClient own;
    private @Nullable AvroDecoder<T> decoder;
    private boolean isKey;

    /// For use by class name: opens its own client; the class is `specific.avro.value.type` or `...key.type`.
    public AvroDeserializer() {
        this.shared = null;
    }

    /// For use in code; opens its own client when it is configured.
    public AvroDeserializer(Class<T> type) {
        this.shared = null;
        this.type = type;
    }

    /// Uses a client that others use too, needs no configuration; [#close] leaves the client open.
    public AvroDeserializer(SchemaRegistryClient registry, Class<T> type) {
        this.shared = registry;
        this.type = type;
        this.decoder = new AvroDecoder<>(registry, type);
    }

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        this.isKey = isKey;
        if (type == null) {
            type = typeOf(AvroSerdeConfig.of(configs).type(isKey), isKey);
        }
        if (shared == null) {
            own = SchemaRegistryClient.open(configs);
            decoder = new AvroDecoder<>(own, type);
        }
    }

    @SuppressWarnings("unchecked") // AvroSerdeConfig lets only records through
    private static <T> Class<T> typeOf(@Nullable Class<?> configured, boolean isKey) {
        if (configured == null) {
            String key = isKey ? "specific.avro.key.type" : "specific.avro.value.type";
            throw new ConfigException(key + ": expected the class of the records to read, got none");
        }
        return (Class<T>) configured;
    }

    @Override
    public @Nullable T deserialize(String topic, byte @Nullable [] bytes) {
        return bytes == null ? null : decoder().decode(bytes);
    }

    @Override
    public @Nullable T deserialize(String topic, Headers headers, byte @Nullable [] bytes) {
        if (bytes == null) {
            return null;
        }
        Header header = headers.lastHeader(isKey ? "__key_schema_id" : "__value_schema_id");
        return decoder().decode(bytes, header == null ? null : header.value());
    }

    private AvroDecoder<T> decoder() {
        if (decoder == null) {
            throw new SerializationException("AvroDeserializer: expected configure() before deserialize()");
        }
        return decoder;
    }

    @Override
    public void close() {
        if (own != null) {
            own.close();
        }
    }
}

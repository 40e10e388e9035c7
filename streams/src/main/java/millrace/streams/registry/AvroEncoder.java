package millrace.streams.registry;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import millrace.schemas.RecordModel;
import millrace.streams.registry.server.SchemaTexts;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DatumWriter;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.specific.SpecificData;
import org.apache.avro.specific.SpecificDatumWriter;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.common.errors.SerializationException;
import org.jspecify.annotations.Nullable;

/// Records of one class to bytes of Confluent's wire format (0x00, int32 schema id, Avro binary).
///
/// The id is settled when the encoder is opened; after that no request is made. Safe for use by many threads.
public final class AvroEncoder<T extends SpecificRecord> {
    private final int id;
    private final Schema schema;
    private final @Nullable Schema target;
    private final DatumWriter<T> writer;

    private AvroEncoder(int id, Schema schema, @Nullable Schema target, SpecificData model) {
        this.id = id;
        this.schema = schema;
        this.target = target;
        this.writer = new SpecificDatumWriter<>(schema, model);
    }

    /// Opens an encoder for a subject: registers the schema, looks it up, or takes the configured one.
    ///
    /// @throws RegistryException when the registry does not give an id; `REGISTRY_REFUSED` when it says no
    public static <T extends SpecificRecord> AvroEncoder<T> open(
            SchemaRegistryClient registry, Class<T> type, String subject, AvroSerdeConfig config) {
        SpecificData model = RecordModel.instance();
        Schema schema = model.getSchema(type);
        if (config.schemaId() != null) {
            return writingAs(config.schemaId(), schema, registry.byId(config.schemaId()), model);
        }
        if (config.useLatestVersion()) {
            RegisteredSchema latest = registry.latest(subject);
            return writingAs(latest.id(), schema, latest.schema(), model);
        }
        int id = config.autoRegister()
                ? registry.register(subject, schema, config.normalize())
                : registry.lookup(subject, schema, config.normalize()).id();
        return new AvroEncoder<>(id, schema, null, model);
    }

    private static <T extends SpecificRecord> AvroEncoder<T> writingAs(
            int id, Schema schema, Schema target, SpecificData model) {
        if (target.equals(schema)) {
            return new AvroEncoder<>(id, schema, null, model);
        }
        String why = SchemaTexts.whyForeign(target, schema);
        if (why != null) {
            throw new RegistryException("SCHEMA_FOREIGN", ("schema id %d: records of %s cannot be written with it: %s;"
                    + " name another schema or register the compiled-in one").formatted(id, schema.getFullName(), why));
        }
        return new AvroEncoder<>(id, schema, target, model);
    }

    /// The id that stands in every record.
    public int schemaId() {
        return id;
    }

    /// Encodes one record.
    ///
    /// @throws SerializationException when the record does not fit its schema (a field that must be set is not)
    public byte[] encode(T record) {
        try {
            byte[] bytes = write(record, writer);
            return target == null ? bytes : rewrite(bytes, target);
        } catch (IOException | AvroRuntimeException | ClassCastException | NullPointerException e) {
            // Avro's own message may quote the value.
            throw new SerializationException("%s: the record does not fit its schema (%s); is a required field missing?"
                    .formatted(schema.getName(), e.getClass().getSimpleName()));
        }
    }

    private <V> byte[] write(V record, DatumWriter<V> writer) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream(512);
        out.writeBytes(ByteBuffer.allocate(5).put((byte) 0).putInt(id).array());
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        writer.write(record, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    // The fields of the other schema may stand in another order: resolved by name, not by position.
    private byte[] rewrite(byte[] bytes, Schema target) throws IOException {
        Object record = new GenericDatumReader<>(schema, target, new GenericData())
                .read(null, new BoundedDecoder(bytes, 5, bytes.length - 5));
        return write(record, new GenericDatumWriter<>(target));
    }
}

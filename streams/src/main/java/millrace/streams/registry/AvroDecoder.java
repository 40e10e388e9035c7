package millrace.streams.registry;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.OptionalInt;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import millrace.schemas.RecordModel;
import millrace.streams.registry.server.SchemaTexts;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.io.DatumReader;
import org.apache.avro.specific.SpecificData;
import org.apache.avro.specific.SpecificDatumReader;
import org.apache.avro.specific.SpecificRecord;
import org.jspecify.annotations.Nullable;

/// Bytes of Confluent's wire format (0x00, int32 schema id, Avro binary) to records of one compiled-in class.
///
/// The body is read with the schema it was written with and resolved to the class's own. A writer's schema is accepted
/// when it has the same full name, can be resolved, and holds nothing that costs more than its bytes (recursion, items
/// of no bytes). What is not acceptable is a [DecodeException]; trouble with the registry is a [RegistryException], and
/// then the same bytes may decode later. No input makes it throw anything else, or allocate more than a small multiple
/// of its length. Safe for use by many threads.
public final class AvroDecoder<T extends SpecificRecord> {
    private static final int PREFIX = 5;
    private static final int GUID_LENGTH = 17;

    private final SchemaRegistryClient registry;
    private final Class<T> type;
    private final SpecificData model;
    private final Schema schema;
    private final Map<Integer, Reader> readers = new ConcurrentHashMap<>();
    private final Map<UUID, Reader> readersByGuid = new ConcurrentHashMap<>();

    // Exactly one of the two is set: how to read bodies of a writer's schema, or why not to.
    private record Reader(@Nullable DatumReader<Object> reader, @Nullable String refusal) {}

    public AvroDecoder(SchemaRegistryClient registry, Class<T> type) {
        this.registry = registry;
        this.type = type;
        this.model = RecordModel.instance();
        this.schema = model.getSchema(type);
    }

    /// The compiled-in schema that records are resolved to.
    public Schema schema() {
        return schema;
    }

    /// Fetches the schemas of all versions of a subject, so that their records decode without a request.
    public void warm(String subject) {
        for (RegisteredSchema version : registry.versions(subject)) {
            reader(version.id());
        }
    }

    /// Schema id of `bytes` if [#decode] would have to ask the registry about it; [#fetch] it first where a
    /// thread must not wait.
    public OptionalInt unknownId(byte @Nullable [] bytes) {
        if (bytes == null || bytes.length < PREFIX || bytes[0] != 0) {
            return OptionalInt.empty();
        }
        int id = id(bytes);
        return readers.containsKey(id) || registry.isCached(id) ? OptionalInt.empty() : OptionalInt.of(id);
    }

    /// Asks the registry about an id; `SCHEMA_UNKNOWN_ID` and `SCHEMA_FOREIGN` are left for [#decode] to say.
    public void fetch(int id) {
        try {
            registry.byId(id);
        } catch (RegistryException e) {
            if (!e.isFaultOfRecord()) {
                throw e;
            }
        }
    }

    /// Decodes one record.
    ///
    /// @throws DecodeException `SCHEMA_*` or `AVRO_DECODE`: these bytes never will be a record
    /// @throws RegistryException `REGISTRY_*`: the registry gave no usable answer about the schema id
    public T decode(byte @Nullable [] bytes) {
        if (bytes == null) {
            throw noValue();
        }
        if (bytes.length < PREFIX) {
            String message = "%s: expected byte 0, a schema id of 4 bytes and a record, got %d bytes;"
                    + " serialize with Confluent's wire format";
            throw new DecodeException("SCHEMA_TOO_SHORT", message.formatted(type.getSimpleName(), bytes.length));
        }
        if (bytes[0] != 0) {
            String message = "%s: expected magic byte 0, got %d; serialize with Confluent's wire format";
            throw new DecodeException("SCHEMA_MAGIC", message.formatted(type.getSimpleName(), bytes[0] & 0xff));
        }
        int id = id(bytes);
        return body("schema id " + id, reader(id), bytes, PREFIX);
    }

    /// Decodes one record whose schema id may stand in the header `__value_schema_id` or `__key_schema_id`: byte 1 and
    /// 16 bytes of a GUID with nothing but the body in `bytes`, or byte 0 and an id. A null header is [#decode].
    public T decode(byte @Nullable [] bytes, byte @Nullable [] schemaIdHeader) {
        if (schemaIdHeader == null) {
            return decode(bytes);
        }
        if (bytes == null) {
            throw noValue();
        }
        if (schemaIdHeader.length == PREFIX && schemaIdHeader[0] == 0) {
            int id = id(schemaIdHeader);
            return body("schema id " + id, reader(id), bytes, 0);
        }
        if (schemaIdHeader.length != GUID_LENGTH || schemaIdHeader[0] != 1) {
            throw new DecodeException("SCHEMA_MAGIC", ("%s: expected a schema id header of byte 1 and 16 bytes, got %d"
                    + " bytes").formatted(type.getSimpleName(), schemaIdHeader.length));
        }
        ByteBuffer buffer = ByteBuffer.wrap(schemaIdHeader, 1, 16);
        UUID guid = new UUID(buffer.getLong(), buffer.getLong());
        return body("schema " + guid, reader(guid), bytes, 0);
    }

    private DecodeException noValue() {
        return new DecodeException(
                "SCHEMA_NULL", "%s: expected a record, got no value".formatted(type.getSimpleName()));
    }

    private static int id(byte[] bytes) {
        return ByteBuffer.wrap(bytes).getInt(1);
    }

    private Reader reader(int id) {
        Reader reader = readers.get(id);
        if (reader == null) {
            reader = open(() -> registry.byId(id));
            readers.putIfAbsent(id, reader);
        }
        return reader;
    }

    private Reader reader(UUID guid) {
        Reader reader = readersByGuid.get(guid);
        if (reader == null) {
            reader = open(() -> registry.byGuid(guid));
            readersByGuid.putIfAbsent(guid, reader);
        }
        return reader;
    }

    private Reader open(Supplier<Schema> fetch) {
        Schema writer;
        try {
            writer = fetch.get();
        } catch (RegistryException e) {
            if (e.isFaultOfRecord()) {
                throw new DecodeException(e.code(), "%s: %s".formatted(type.getSimpleName(), e.getMessage()), e);
            }
            throw e;
        }
        String refusal = SchemaTexts.whyForeign(schema, writer);
        return refusal == null
                ? new Reader(new SpecificDatumReader<>(writer, schema, model), null)
                : new Reader(null, refusal);
    }

    private T body(String origin, Reader reader, byte[] bytes, int offset) {
        if (reader.reader == null) {
            throw new DecodeException("SCHEMA_FOREIGN", "%s: %s: %s; produce to the topic of that schema"
                    .formatted(type.getSimpleName(), origin, reader.refusal));
        }
        BoundedDecoder decoder = new BoundedDecoder(bytes, offset, bytes.length - offset);
        T record;
        try {
            record = type.cast(reader.reader.read(null, decoder));
        } catch (IOException | AvroRuntimeException | IndexOutOfBoundsException | ClassCastException
                | ArithmeticException | IllegalArgumentException | NullPointerException | IllegalStateException e) {
            throw malformed(origin, bytes.length - offset, SchemaTexts.quote(e.getMessage(), 200), e);
        }
        if (!decoder.isEnd()) {
            throw malformed(origin, bytes.length - offset, decoder.remainingBytes() + " left over", null);
        }
        return record;
    }

    private DecodeException malformed(String origin, int length, String why, @Nullable Exception cause) {
        String message = "%s: %s: the body of %d bytes is not what the schema says: %s"
                .formatted(type.getSimpleName(), origin, length, why);
        return cause == null
                ? new DecodeException("AVRO_DECODE", message)
                : new DecodeException("AVRO_DECODE", message, cause);
    }
}

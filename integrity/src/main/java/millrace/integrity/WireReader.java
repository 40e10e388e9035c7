package millrace.integrity;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntFunction;
import millrace.schemas.RecordModel;
import millrace.schemas.Schemas;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.specific.SpecificDatumReader;
import org.apache.avro.specific.SpecificRecord;
import org.jspecify.annotations.Nullable;

/// Reads a record's value from the wire: byte 0, schema id (4 bytes big-endian), Avro body. Not for use by two threads
/// at once.
///
/// With a resolver a value is read under the schema that it gives for the id. Without one the id says nothing: a value is
/// read under the newest of this record's schemas of which it is exactly one record. Later versions add fields at the
/// end, so no value is a record of two of them.
public final class WireReader<T extends SpecificRecord> {
    static final int PREFIX = 5;

    private final Schemas kind;
    private final @Nullable IntFunction<Schema> resolver;
    private final Map<Integer, List<Source>> sources = new HashMap<>();
    private @Nullable BinaryDecoder decoder;

    /// How to read what was written under one schema.
    private record Source(SpecificDatumReader<SpecificRecord> reader, Digest fingerprint) {}

    /// A value that was read.
    ///
    /// @param fingerprint of the schema it was written under
    public record Decoded<T>(T record, Digest fingerprint) {}

    /// @param resolver gives the schema of a registry's id; null to do without a registry
    public WireReader(Schemas kind, @Nullable IntFunction<Schema> resolver) {
        this.kind = kind;
        this.resolver = resolver;
    }

    /// @throws IntegrityException code `AVRO_DECODE` if the value is not exactly one record
    public Decoded<T> read(byte @Nullable [] value) {
        if (value == null || value.length < PREFIX || value[0] != 0) {
            throw bad("a byte 0 and a schema id before the record",
                    value == null ? "no value" : value.length == 0 ? "0 bytes"
                            : "%d bytes that begin with %d".formatted(value.length, value[0]));
        }
        IntegrityException first = null;
        for (Source source : sources(ByteBuffer.wrap(value).getInt(1))) {
            try {
                return read(value, source);
            } catch (IntegrityException e) {
                first = first == null ? e : first;
            }
        }
        throw Objects.requireNonNull(first, "every record has a schema");
    }

    private Decoded<T> read(byte[] value, Source source) {
        try {
            decoder = DecoderFactory.get().binaryDecoder(value, PREFIX, value.length - PREFIX, decoder);
            SpecificRecord record = source.reader.read(null, decoder);
            if (!decoder.isEnd()) {
                throw bad("no bytes after the record", "some");
            }
            @SuppressWarnings("unchecked") // the reader's expected schema is that of T
            T typed = (T) record;
            return new Decoded<>(typed, source.fingerprint);
        } catch (IOException | AvroRuntimeException | IndexOutOfBoundsException | NegativeArraySizeException
                | UnsupportedOperationException e) {
            throw new IntegrityException("AVRO_DECODE",
                    "%s: expected a whole record, got %d bytes that end or break off inside it"
                            .formatted(kind.fullName(), value.length - PREFIX), e);
        }
    }

    private List<Source> sources(int id) {
        return sources.computeIfAbsent(resolver == null ? 0 : id, key ->
                resolver == null ? kind.versions().stream().map(this::source).toList()
                        : List.of(named(key, resolver.apply(key))));
    }

    private Source named(int id, Schema writer) {
        if (!writer.getFullName().equals(kind.fullName())) {
            throw bad("a schema of that name under id " + id, writer.getFullName());
        }
        return source(writer);
    }

    private Source source(Schema writer) {
        return new Source(new SpecificDatumReader<>(writer, kind.schema(), RecordModel.instance()),
                Digest.of(Schemas.fingerprint(writer)));
    }

    private IntegrityException bad(String expected, String got) {
        return new IntegrityException("AVRO_DECODE",
                "%s: expected %s, got %s".formatted(kind.fullName(), expected, got));
    }
}

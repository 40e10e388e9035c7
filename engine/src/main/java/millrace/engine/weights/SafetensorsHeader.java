package millrace.engine.weights;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import millrace.engine.InvalidModelException;
import millrace.engine.kernel.DType;
import org.jspecify.annotations.Nullable;

/// The JSON header of a safetensors file: parsed as a stream, stricter than the format's own reader.
///
/// Stricter in that no key may stand twice, names are bounded and printable, and the count of tensors is bounded. The
/// tensors must tile the data exactly: no gap, no overlap, nothing before or after.
final class SafetensorsHeader {
    /// Real shards have thousands of tensors, the largest checkpoints 200,000 over all shards.
    private static final int MAX_TENSORS = 500_000;
    private static final int MAX_NAME = 1024;
    private static final int MAX_RANK = 16;
    private static final JsonFactory FACTORY = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNestingDepth(4)
                    .maxNumberLength(32)
                    .maxNameLength(MAX_NAME)
                    .maxStringLength(8 << 20)
                    .build())
            // Names are all different: a shared symbol table would only hold on to them.
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
            .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
            .build();

    /// Where a tensor's bytes are, relative to the data.
    record Entry(String name, DType dtype, long[] shape, long begin, long end) {}

    private final String where;
    private final JsonParser parser;
    private final List<Entry> entries = new ArrayList<>();

    private SafetensorsHeader(String where, JsonParser parser) {
        this.where = where;
        this.parser = parser;
    }

    /// Every tensor of the header, in its order.
    ///
    /// @param header the JSON, maybe padded with spaces
    /// @param dataBytes bytes of the file after the header
    /// @param where name of the file, for messages
    static List<Entry> parse(MemorySegment header, long dataBytes, String where) {
        byte first = header.get(ValueLayout.JAVA_BYTE, 0);
        if (first != '{') {
            throw new InvalidModelException(
                    "ST_HEADER_JSON",
                    where + ": header: expected '{' as first byte, got 0x" + String.format("%02x", first)
                            + "; restore the file");
        }
        // A parser given bytes would guess UTF-16 or UTF-32; the format knows UTF-8 only.
        try (JsonParser parser = FACTORY.createParser(new InputStreamReader(stream(header), strictUtf8()))) {
            var reader = new SafetensorsHeader(where, parser);
            reader.readAll();
            reader.checkTail(header);
            reader.checkTiling(dataBytes);
            return reader.entries;
        } catch (JsonProcessingException e) {
            throw new InvalidModelException(
                    "ST_HEADER_JSON",
                    where + ": header: expected JSON, got: " + JsonFiles.oneLine(e) + "; restore the file",
                    e);
        } catch (IOException e) {
            throw new InvalidModelException(
                    "ST_HEADER_JSON", where + ": header: expected UTF-8, got other bytes; restore the file", e);
        }
    }

    static CharsetDecoder strictUtf8() {
        return StandardCharsets.UTF_8
                .newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT);
    }

    private void readAll() throws IOException {
        parser.nextToken();
        Set<String> names = new HashSet<>();
        String name;
        while ((name = nextName()) != null) {
            if (!names.add(name)) {
                throw duplicate(name);
            }
            if (name.equals("__metadata__")) {
                readMetadata();
            } else {
                checkName(name);
                if (entries.size() == MAX_TENSORS) {
                    throw new InvalidModelException(
                            "ST_TOO_MANY",
                            where + ": header: expected at most " + MAX_TENSORS
                                    + " tensors, got more; split the file into shards");
                }
                entries.add(readEntry(name));
            }
        }
        if (parser.nextToken() != null) {
            throw json("nothing after the object", "more JSON");
        }
    }

    /// Next key of the outermost object, or null at its end.
    private @Nullable String nextName() throws IOException {
        try {
            return parser.nextToken() == JsonToken.FIELD_NAME ? parser.currentName() : null;
        } catch (StreamConstraintsException e) {
            throw new InvalidModelException(
                    "ST_NAME",
                    where + ": header: expected tensor names of at most " + MAX_NAME
                            + " bytes, got a longer one; do not use this file",
                    e);
        }
    }

    private void checkName(String name) {
        boolean fine = !name.isEmpty() && name.length() <= MAX_NAME && !name.startsWith(".")
                && name.chars().allMatch(c -> c > 0x20 && c < 0x7f && c != '/' && c != '\\');
        if (!fine) {
            throw new InvalidModelException(
                    "ST_NAME",
                    where + ": header: expected a tensor name of 1 to " + MAX_NAME
                            + " printable ASCII characters without slashes or a leading dot, got " + Text.quote(name)
                            + "; do not use this file");
        }
    }

    private void readMetadata() throws IOException {
        if (parser.nextToken() != JsonToken.START_OBJECT) {
            throw metadata("an object");
        }
        Set<String> keys = new HashSet<>();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            if (!keys.add(parser.currentName())) {
                throw duplicate(parser.currentName());
            }
            if (parser.nextToken() != JsonToken.VALUE_STRING) {
                throw metadata("strings as values");
            }
        }
    }

    private InvalidModelException metadata(String expected) {
        return new InvalidModelException(
                "ST_METADATA",
                where + ": header: __metadata__: expected " + expected
                        + ", got another kind of value; restore the file");
    }

    private Entry readEntry(String name) throws IOException {
        if (parser.nextToken() != JsonToken.START_OBJECT) {
            throw json("an object for " + Text.quote(name), "another value");
        }
        DType dtype = null;
        long[] shape = null;
        long[] offsets = null;
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String field = parser.currentName();
            parser.nextToken();
            boolean again = switch (field) {
                case "dtype" -> dtype != null;
                case "shape" -> shape != null;
                case "data_offsets" -> offsets != null;
                default -> throw json(
                        "dtype, shape and data_offsets for " + Text.quote(name), "also " + Text.quote(field));
            };
            if (again) {
                throw duplicate(name + "." + field);
            }
            switch (field) {
                case "dtype" -> dtype = readDType(name);
                case "shape" -> shape = readNumbers(name, "ST_SHAPE", "shape");
                default -> offsets = readNumbers(name, "ST_LAYOUT", "data_offsets");
            }
        }
        if (dtype == null || shape == null || offsets == null) {
            throw json("dtype, shape and data_offsets for " + Text.quote(name), "an entry without all three");
        }
        if (offsets.length != 2 || offsets[0] > offsets[1]) {
            throw layout(name, "data_offsets [begin, end] with begin <= end", Arrays.toString(offsets));
        }
        checkLength(name, dtype, shape, offsets[1] - offsets[0]);
        return new Entry(name, dtype, shape, offsets[0], offsets[1]);
    }

    private DType readDType(String tensor) throws IOException {
        String text = parser.currentToken() == JsonToken.VALUE_STRING ? parser.getText() : null;
        DType dtype = text == null ? null : DType.named(text);
        if (dtype == null) {
            throw dtype(tensor, "a dtype of the format, such as BF16", text == null ? "no string" : Text.quote(text));
        }
        return dtype;
    }

    private long[] readNumbers(String tensor, String code, String field) throws IOException {
        long[] numbers = new long[MAX_RANK];
        int count = 0;
        boolean fine = parser.currentToken() == JsonToken.START_ARRAY;
        while (fine && parser.nextToken() != JsonToken.END_ARRAY) {
            fine = parser.currentToken() == JsonToken.VALUE_NUMBER_INT
                    && parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER
                    && parser.getLongValue() >= 0
                    && count < MAX_RANK;
            if (fine) {
                numbers[count++] = parser.getLongValue();
            }
        }
        if (!fine) {
            throw new InvalidModelException(
                    code,
                    where + ": header: " + Text.quote(tensor) + ": expected " + field + " as an array of at most "
                            + MAX_RANK + " whole numbers from 0 to 2^63-1, got something else; restore the file");
        }
        return Arrays.copyOf(numbers, count);
    }

    private void checkLength(String tensor, DType dtype, long[] shape, long bytes) {
        long bits;
        try {
            bits = dtype.bits();
            for (long dimension : shape) {
                bits = Math.multiplyExact(bits, dimension);
            }
        } catch (ArithmeticException e) {
            throw new InvalidModelException(
                    "ST_OVERFLOW",
                    where + ": header: " + Text.quote(tensor) + ": expected a shape of fewer than 2^63 bits, got "
                            + Arrays.toString(shape) + "; do not use this file",
                    e);
        }
        if (bits % 8 != 0) {
            throw dtype(tensor, "elements that end on a byte", dtype + " " + Arrays.toString(shape));
        }
        if (bits / 8 != bytes) {
            throw dtype(
                    tensor,
                    bits / 8 + " bytes for " + dtype + " " + Arrays.toString(shape),
                    bytes + " by data_offsets");
        }
    }

    private void checkTiling(long dataBytes) {
        Entry[] sorted = entries.toArray(Entry[]::new);
        Arrays.sort(sorted, Comparator.comparingLong(Entry::begin).thenComparingLong(Entry::end));
        long end = 0;
        for (Entry e : sorted) {
            if (e.begin() != end) {
                throw layout(
                        e.name(),
                        "data from offset " + end + ", where the tensor before ends",
                        (e.begin() > end ? "a hole up to " : "an overlap from ") + e.begin());
            }
            end = e.end();
            if (end > dataBytes) {
                throw layout(e.name(), "an end within the " + dataBytes + " bytes of data", String.valueOf(end));
            }
        }
        if (end != dataBytes) {
            throw new InvalidModelException(
                    "ST_LAYOUT",
                    where + ": expected the data to end with the last tensor at offset " + end + ", got " + dataBytes
                            + " bytes of data; restore the file");
        }
    }

    /// Only spaces may pad the header; other white space, which JSON would allow, may not.
    private void checkTail(MemorySegment header) {
        long at = header.byteSize() - 1;
        while (header.get(ValueLayout.JAVA_BYTE, at) == ' ') {
            at--;
        }
        if (header.get(ValueLayout.JAVA_BYTE, at) != '}') {
            throw json("only spaces after the object", "other bytes");
        }
    }

    private InvalidModelException json(String expected, String got) {
        return new InvalidModelException(
                "ST_HEADER_JSON", where + ": header: expected " + expected + ", got " + got + "; restore the file");
    }

    private InvalidModelException duplicate(String name) {
        return new InvalidModelException(
                "ST_DUPLICATE",
                where + ": header: expected every name once, got " + Text.quote(name) + " twice; do not use this file");
    }

    private InvalidModelException layout(String tensor, String expected, String got) {
        return new InvalidModelException(
                "ST_LAYOUT",
                where + ": header: " + Text.quote(tensor) + ": expected " + expected + ", got " + got
                        + "; restore the file");
    }

    private InvalidModelException dtype(String tensor, String expected, String got) {
        return new InvalidModelException(
                "ST_DTYPE",
                where + ": header: " + Text.quote(tensor) + ": expected " + expected + ", got " + got
                        + "; restore the file");
    }

    private static InputStream stream(MemorySegment segment) {
        return new InputStream() {
            private long at;

            @Override
            public int read() {
                return at == segment.byteSize() ? -1 : segment.get(ValueLayout.JAVA_BYTE, at++) & 0xff;
            }

            @Override
            public int read(byte[] into, int offset, int length) {
                if (at == segment.byteSize()) {
                    return length == 0 ? 0 : -1;
                }
                int count = (int) Math.min(length, segment.byteSize() - at);
                MemorySegment.copy(segment, ValueLayout.JAVA_BYTE, at, into, offset, count);
                at += count;
                return count;
            }
        };
    }
}

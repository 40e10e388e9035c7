package millrace.streams.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.schemas.Usage;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

class AvroDecoderTest {
    private static final String PROMPTS = "llm.prompts-value";
    private SchemaRegistryClient registry;
    private AvroDecoder<Prompt> decoder;
    private AvroEncoder<Prompt> encoder;

    @BeforeEach
    void open(TestInfo test) {
        registry = SchemaRegistryClient.open(Map.of("schema.registry.url",
                "mock://decoder-" + test.getTestMethod().orElseThrow().getName()));
        encoder = AvroEncoder.open(registry, Prompt.class, PROMPTS, AvroSerdeConfig.of(Map.of()));
        decoder = new AvroDecoder<>(registry, Prompt.class);
    }

    static Prompt prompt() {
        return Prompt.newBuilder()
                .setRequestId("r-1")
                .setMessages(List.of(
                        new Message("user", "2+2? \u00e4\u4f60\ud83d\ude00 \ufffd", null, null, null, List.of())))
                .setSampling(Sampling.newBuilder().setTemperature(0.5f).setSeed(7L).setStop(List.of("\n")).build())
                .setMetadata(Map.of("k", "v"))
                .build();
    }

    private DecodeException refused(byte[] bytes) {
        return catchThrowableOfType(DecodeException.class, () -> decoder.decode(bytes));
    }

    private static byte[] bytes(int... values) {
        byte[] bytes = new byte[values.length];
        for (int i = 0; i < values.length; i++) {
            bytes[i] = (byte) values[i];
        }
        return bytes;
    }

    private static byte[] withId(int id, byte[] body) {
        return ByteBuffer.allocate(5 + body.length).put((byte) 0).putInt(id).put(body).array();
    }

    private static byte[] encode(GenericRecord record) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, encoder);
        return out.toByteArray();
    }

    @Test
    void readsWhatTheEncoderWrote() {
        assertThat(decoder.decode(encoder.encode(prompt()))).isEqualTo(prompt());
        assertThat(encoder.encode(prompt())).startsWith(0, 0, 0, 0, encoder.schemaId());
    }

    @Test
    void refusesWhatHasNoSchemaId() {
        DecodeException none = refused(null);
        assertThat(none.code()).isEqualTo("SCHEMA_NULL");
        assertThat(none).hasMessage("Prompt: expected a record, got no value");
        for (byte[] tooShort : List.of(new byte[0], bytes(0, 0, 0, 1))) {
            DecodeException e = refused(tooShort);
            assertThat(e.code()).isEqualTo("SCHEMA_TOO_SHORT");
            assertThat(e).hasMessage("Prompt: expected byte 0, a schema id of 4 bytes and a record, got %d bytes;"
                    + " serialize with Confluent's wire format", tooShort.length);
        }
        DecodeException magic = refused(bytes(1, 0, 0, 0, 1, 0));
        assertThat(magic.code()).isEqualTo("SCHEMA_MAGIC");
        assertThat(magic).hasMessage("Prompt: expected magic byte 0, got 1; serialize with Confluent's wire format");
    }

    @Test
    void refusesAnIdThatTheRegistryDoesNotKnow() {
        for (int id : new int[] {99, -1, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
            DecodeException e = refused(withId(id, new byte[10]));
            assertThat(e.code()).isEqualTo("SCHEMA_UNKNOWN_ID");
            assertThat(e).hasMessageEndingWith("there is no schema of id " + id);
        }
    }

    @Test
    void refusesTheSchemaOfAnotherRecord() {
        int id = registry.register("usage-value", Usage.getClassSchema());
        DecodeException e = refused(withId(id, bytes(2, 4, 6)));
        assertThat(e.code()).isEqualTo("SCHEMA_FOREIGN");
        assertThat(e).hasMessage("Prompt: schema id %d: expected a schema of millrace.schemas.Prompt, got one of"
                + " millrace.schemas.Usage; produce to the topic of that schema", id);
    }

    @Test
    void refusesSchemasThatCannotBeResolvedOrCostMoreThanTheirBytes() {
        String head = "{\"type\":\"record\",\"name\":\"Prompt\",\"namespace\":\"millrace.schemas\",\"fields\":[";
        String idField = "{\"name\":\"request_id\",\"type\":\"string\"}";
        Map<String, String> refusals = Map.of(
                "{\"name\":\"request_id\",\"type\":\"int\"}", "TYPE_MISMATCH at /fields/0/type",
                "{\"name\":\"other\",\"type\":\"int\"}", "READER_FIELD_MISSING_DEFAULT_VALUE at /fields/0",
                idField + ",{\"name\":\"n\",\"type\":[\"null\",\"Prompt\"]}", "the schema contains itself (Prompt)",
                idField + ",{\"name\":\"n\",\"type\":{\"type\":\"array\",\"items\":\"null\"}}",
                        "the schema has an array whose items take no bytes",
                idField + ",{\"name\":\"n\",\"type\":" + doubling(0) + "}",
                        "the schema has more than 100 values that take no bytes",
                idField + ",{\"name\":\"n\",\"type\":" + "{\"type\":\"array\",\"items\":".repeat(80) + "\"int\""
                                + "}".repeat(80) + "}", "the schema is nested more than 64 deep");
        int subject = 0;
        for (Map.Entry<String, String> refusal : refusals.entrySet()) {
            Schema schema = new Schema.Parser().parse(head + refusal.getKey() + "]}");
            int id = registry.register("foreign-" + subject++, schema);
            DecodeException e = refused(withId(id, bytes(2, 'x', 0, 0, 0, 0)));
            assertThat(e.code()).as(refusal.getValue()).isEqualTo("SCHEMA_FOREIGN");
            assertThat(e).hasMessageContaining(refusal.getValue());
        }
    }

    // A record of two of the next, fifty levels down: 2^50 nulls in no bytes.
    private static String doubling(int level) {
        if (level == 50) {
            return "\"null\"";
        }
        String again = level == 49 ? "null" : "L" + (level + 1);
        return "{\"type\":\"record\",\"name\":\"L" + level + "\",\"fields\":[{\"name\":\"a\",\"type\":"
                + doubling(level + 1) + "},{\"name\":\"b\",\"type\":\"" + again + "\"}]}";
    }

    @Test
    void readsOlderAndNewerSchemasOfTheSameRecord() throws IOException {
        String namespace = "\"namespace\":\"millrace.schemas\"";
        Schema writer = new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"Prompt\"," + namespace
                + ",\"fields\":[{\"name\":\"extra\",\"type\":"
                + "{\"type\":\"array\",\"items\":{\"type\":\"map\",\"values\":\"bytes\"}}},"
                + "{\"name\":\"prompt\",\"type\":\"string\"},{\"name\":\"request_id\",\"type\":\"string\"}]}");
        GenericRecord record = new GenericData.Record(writer);
        record.put("extra", List.of(Map.of("a", ByteBuffer.wrap(new byte[3])), Map.of()));
        record.put("prompt", "hello");
        record.put("request_id", "r-2");
        int id = registry.register("evolved", writer);
        Prompt prompt = decoder.decode(withId(id, encode(record)));
        assertThat(prompt.getRequestId()).isEqualTo("r-2");
        assertThat(prompt.getPrompt()).isEqualTo("hello");
        assertThat(prompt.getPriority()).isZero();
        assertThat(prompt.getMetadata()).isEmpty();
    }

    @Test
    void refusesEveryCutAndEveryExtension() {
        byte[] good = encoder.encode(prompt());
        for (int length = 5; length < good.length; length++) {
            DecodeException e = refused(Arrays.copyOf(good, length));
            assertThat(e).as("%d bytes", length).isNotNull();
            assertThat(e.code()).isEqualTo("AVRO_DECODE");
        }
        DecodeException e = refused(Arrays.copyOf(good, good.length + 3));
        assertThat(e.code()).isEqualTo("AVRO_DECODE");
        assertThat(e).hasMessage("Prompt: schema id %d: the body of %d bytes is not what the schema says: 3 left over",
                encoder.schemaId(), good.length - 2);
    }

    @Test
    void believesNoLength() {
        byte[] minLong = bytes(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
        byte[] maxInt = bytes(0xfe, 0xff, 0xff, 0xff, 0x0f);
        byte[] id = bytes(2, 'r');
        Map<String, byte[]> bodies = Map.of(
                "string: length 2147483647 with 0 bytes left", maxInt,
                "string: length -9223372036854775808 with 0 bytes left", minLong,
                "string: length -1 with 0 bytes left", bytes(1),
                "block: 9223372036854775807 items in 0 bytes",
                        join(id, bytes(0, 0, 0, 0, 0, 2), minLong, bytes(0)),
                "block: 2147483647 items in 0 bytes", join(id, bytes(0, 0, 0, 0, 0, 2), maxInt),
                "varint: longer than 64 bits",
                        bytes(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
                "the bytes end within the record", id,
                "string: not UTF-8", bytes(4, 0xc3, 0x28));
        bodies.forEach((message, body) -> {
            DecodeException e = refused(withId(encoder.schemaId(), body));
            assertThat(e).as(message).isNotNull();
            assertThat(e.code()).as(message).isEqualTo("AVRO_DECODE");
            assertThat(e).hasMessageEndingWith("is not what the schema says: " + message);
        });
        for (int index : new int[] {99 * 2, 3, 0x7f}) {
            DecodeException union = refused(withId(encoder.schemaId(), join(id, bytes(index), new byte[8])));
            assertThat(union.code()).isEqualTo("AVRO_DECODE");
        }
    }

    private static byte[] join(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            out.writeBytes(part);
        }
        return out.toByteArray();
    }

    @Test
    void throwsNothingElseOnDamagedRecords() {
        long seed = 20261130;
        SplittableRandom random = new SplittableRandom(seed);
        byte[] good = encoder.encode(prompt());
        for (int i = 0; i < 5_000; i++) {
            byte[] bad = good.clone();
            for (int flips = random.nextInt(1, 5); flips > 0; flips--) {
                bad[random.nextInt(5, bad.length)] = (byte) random.nextInt(256);
            }
            try {
                decoder.decode(bad);
            } catch (DecodeException e) {
                assertThat(e.code()).as("seed %d, case %d", seed, i).isEqualTo("AVRO_DECODE");
            } catch (Throwable e) {
                throw new AssertionError("seed %d, case %d: %s".formatted(seed, i, Arrays.toString(bad)), e);
            }
        }
    }

    @Test
    void refusalsDoNotQuoteTheRecord() {
        byte[] good = encoder.encode(Prompt.newBuilder().setRequestId("TOPSECRET").setPrompt("TOPSECRET").build());
        for (int length = 0; length < good.length; length++) {
            assertThat(refused(Arrays.copyOf(good, length))).hasMessageNotContaining("TOPSECRET");
        }
        Prompt invalid = prompt();
        invalid.setMetadata(null);
        assertThatThrownBy(() -> encoder.encode(invalid))
                .hasMessageStartingWith("Prompt: the record does not fit its schema (");
    }

    @Test
    void knowsWhatItWouldHaveToAskFor() {
        byte[] known = encoder.encode(prompt());
        assertThat(decoder.unknownId(known)).isEmpty();
        assertThat(decoder.unknownId(null)).isEmpty();
        assertThat(decoder.unknownId(withId(50, new byte[2]))).hasValue(50);
        decoder.fetch(50);
        SchemaRegistryClient other = SchemaRegistryClient.open(
                Map.of("schema.registry.url", "mock://decoder-knowsWhatItWouldHaveToAskFor"));
        AvroDecoder<Prompt> cold = new AvroDecoder<>(other, Prompt.class);
        assertThat(cold.unknownId(known)).hasValue(encoder.schemaId());
        cold.warm(PROMPTS);
        assertThat(cold.unknownId(known)).isEmpty();
    }

    @Test
    void aTroubledRegistryIsNoFaultOfTheRecord() {
        try (SchemaRegistryClient down = SchemaRegistryClient.open(Map.of(
                "schema.registry.url", "http://127.0.0.1:1", "max.retries", 0))) {
            AvroDecoder<Prompt> cold = new AvroDecoder<>(down, Prompt.class);
            assertThatThrownBy(() -> cold.decode(withId(1, new byte[3])))
                    .isInstanceOfSatisfying(RegistryException.class, e -> assertThat(e.isTransient()).isTrue());
        }
    }
}

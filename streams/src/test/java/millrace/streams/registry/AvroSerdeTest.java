package millrace.streams.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import millrace.schemas.Prompt;
import millrace.schemas.Usage;
import org.apache.avro.Schema;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;
import org.junit.jupiter.api.Test;

class AvroSerdeTest {
    private static Map<String, Object> configs(String scope, Object... more) {
        Map<String, Object> configs = new HashMap<>(Map.of("schema.registry.url", "mock://serde-" + scope));
        for (int i = 0; i < more.length; i += 2) {
            configs.put((String) more[i], more[i + 1]);
        }
        return configs;
    }

    @Test
    void worksByClassNameAndConfiguration() {
        try (AvroSerde<Prompt> serde = new AvroSerde<>()) {
            serde.configure(configs("names", "specific.avro.value.type", "millrace.schemas.Prompt"), false);
            Prompt prompt = AvroDecoderTest.prompt();
            byte[] bytes = serde.serializer().serialize("t", prompt);
            assertThat(serde.deserializer().deserialize("t", bytes)).isEqualTo(prompt);
            assertThat(serde.deserializer().deserialize("t", new RecordHeaders(), bytes)).isEqualTo(prompt);
        }
        try (SchemaRegistryClient client = SchemaRegistryClient.open(configs("names"))) {
            assertThat(client.latest("t-value").schema()).isEqualTo(Prompt.getClassSchema());
        }
    }

    @Test
    void nullIsATombstone() {
        try (AvroSerde<Prompt> serde = new AvroSerde<>(Prompt.class)) {
            serde.configure(configs("null"), false);
            assertThat(serde.serializer().serialize("t", null)).isNull();
            assertThat(serde.deserializer().deserialize("t", null)).isNull();
            assertThat(serde.deserializer().deserialize("t", new RecordHeaders(), (byte[]) null)).isNull();
        }
    }

    @Test
    void namesSubjectsByTheStrategy() {
        try (SchemaRegistryClient client = SchemaRegistryClient.open(configs("strategy"));
                Serializer<Usage> serializer = new AvroSerializer<>(client)) {
            serializer.configure(configs("strategy", "key.subject.name.strategy", "TopicRecordNameStrategy"), true);
            serializer.serialize("t", new Usage(1, 2, 3));
            assertThat(client.versions("t-millrace.schemas.Usage")).hasSize(1);
        }
    }

    @Test
    void withoutRegistrationTheSchemaMustBeThere() {
        try (SchemaRegistryClient client = SchemaRegistryClient.open(configs("strict"));
                Serializer<Usage> serializer = new AvroSerializer<>(client)) {
            serializer.configure(configs("strict", "auto.register.schemas", false), false);
            assertThatThrownBy(() -> serializer.serialize("t", new Usage(1, 2, 3)))
                    .isInstanceOfSatisfying(RegistryException.class, e -> assertThat(e.errorCode()).isEqualTo(40401));
            int id = client.register("t-value", Usage.getClassSchema());
            assertThat(serializer.serialize("t", new Usage(1, 2, 3))).containsExactly(0, 0, 0, 0, id, 2, 4, 6);
        }
    }

    @Test
    void writesWithTheSubjectsNewestSchemaByFieldName() {
        Schema other = new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"Usage\",\"namespace\":"
                + "\"millrace.schemas\",\"fields\":[{\"name\":\"completion_tokens\",\"type\":\"long\"},"
                + "{\"name\":\"prompt_tokens\",\"type\":\"int\"}]}");
        try (SchemaRegistryClient client = SchemaRegistryClient.open(configs("latest"));
                Serializer<Usage> byLatest = new AvroSerializer<>(client);
                Serializer<Usage> byId = new AvroSerializer<>(client)) {
            int id = client.register("t-value", other);
            byLatest.configure(configs("latest", "auto.register.schemas", false, "use.latest.version", true), false);
            byId.configure(configs("latest", "auto.register.schemas", false, "use.schema.id", id), false);
            byte[] expected = {0, 0, 0, 0, (byte) id, 4, 2};
            assertThat(byLatest.serialize("t", new Usage(1, 2, 3))).isEqualTo(expected);
            assertThat(byId.serialize("other", new Usage(1, 2, 3))).isEqualTo(expected);
            int prompt = client.register("p-value", Prompt.getClassSchema());
            byId.configure(configs("latest", "auto.register.schemas", false, "use.schema.id", prompt), false);
            assertThatThrownBy(() -> byId.serialize("third", new Usage(1, 2, 3)))
                    .hasMessageContaining("records of millrace.schemas.Usage cannot be written with it: expected a"
                            + " schema of millrace.schemas.Prompt");
        }
    }

    @Test
    void readsTheSchemaIdFromAHeader() throws IOException {
        UUID guid = UUID.fromString("89791762-2336-4186-9674-299b90a802e2");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/schemas/guids/" + guid, exchange -> {
            String schema = Usage.getClassSchema().toString().replace("\"", "\\\"");
            byte[] body = ("{\"schema\":\"" + schema + "\"}").getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        String url = "http://127.0.0.1:" + server.getAddress().getPort();
        try (Deserializer<Usage> deserializer = new AvroDeserializer<>(Usage.class)) {
            deserializer.configure(Map.of("schema.registry.url", url), false);
            byte[] id = ByteBuffer.allocate(17).put((byte) 1)
                    .putLong(guid.getMostSignificantBits()).putLong(guid.getLeastSignificantBits()).array();
            RecordHeaders headers = new RecordHeaders();
            headers.add("__value_schema_id", id);
            assertThat(deserializer.deserialize("t", headers, new byte[] {2, 4, 6})).isEqualTo(new Usage(1, 2, 3));
            headers.add("__value_schema_id", Arrays.copyOf(id, 9));
            assertThatThrownBy(() -> deserializer.deserialize("t", headers, new byte[] {2, 4, 6}))
                    .isInstanceOfSatisfying(DecodeException.class, e -> assertThat(e.code()).isEqualTo("SCHEMA_MAGIC"))
                    .hasMessage("Usage: expected a schema id header of byte 1 and 16 bytes, got 9 bytes");
        } finally {
            server.stop(0);
        }
    }

    @Test
    void refusesToReadWithoutAClass() {
        try (AvroDeserializer<Prompt> deserializer = new AvroDeserializer<>()) {
            assertThatThrownBy(() -> deserializer.configure(configs("class"), false))
                    .isInstanceOf(ConfigException.class)
                    .hasMessage("specific.avro.value.type: expected the class of the records to read, got none");
        }
    }
}

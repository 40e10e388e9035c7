package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.schemas.Prompt;
import millrace.streams.PromptDecoder.RegistryUnavailableException;
import millrace.streams.PromptDecoder.UndecodableException;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Against a registry that answers late: the stream thread must not notice.
class RegistryPromptDecoderTest {
    private final CountDownLatch answer = new CountDownLatch(1);
    private final AtomicInteger asked = new AtomicInteger();
    private HttpServer server;
    private SchemaRegistryClient registry;
    private RegistryPromptDecoder decoder;
    private byte[] wire;

    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
        server.createContext("/", this::answerLate);
        server.start();
        registry = SchemaRegistryClient.open(Map.of(
                "schema.registry.url", "http://127.0.0.1:" + server.getAddress().getPort(), "max.retries", "0"));
        decoder = new RegistryPromptDecoder(new AvroDecoder<>(registry, Prompt.class));
        Map<String, String> memory = Map.of("schema.registry.url", "mock://registry-prompt-decoder");
        try (SchemaRegistryClient other = SchemaRegistryClient.open(memory)) {
            wire = AvroEncoder.open(other, Prompt.class, "p-value", AvroSerdeConfig.of(memory))
                    .encode(ServiceDriver.prompt("r-1", "q").build());
        }
    }

    @AfterEach
    void stop() {
        answer.countDown();
        decoder.close();
        registry.close();
        server.stop(0);
    }

    /// Schema 7 and one GUID are the prompt's; the registry knows no other.
    private void answerLate(HttpExchange exchange) throws IOException {
        asked.incrementAndGet();
        try (exchange) {
            answer.await();
            String path = exchange.getRequestURI().getPath();
            boolean known = path.equals("/schemas/ids/7") || path.equals("/schemas/guids/00000000-0000-0001-0000-000000000002");
            String schema = Prompt.getClassSchema().toString().replace("\\", "\\\\").replace("\"", "\\\"");
            byte[] body = (known ? "{\"schema\":\"" + schema + "\"}" : "{\"error_code\":40403,\"message\":\"Schema not found\"}")
                    .getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/vnd.schemaregistry.v1+json");
            exchange.sendResponseHeaders(known ? 200 : 404, body.length);
            exchange.getResponseBody().write(body);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private Source ofId(int id) {
        return source(ByteBuffer.wrap(wire.clone()).putInt(1, id).array(), null);
    }

    private Source ofGuid(long low) {
        byte[] header = ByteBuffer.allocate(17).put((byte) 1).putLong(1).putLong(low).array();
        return source(Arrays.copyOfRange(wire, 5, wire.length), header);
    }

    private static Source source(byte @Nullable [] value, byte @Nullable [] header) {
        RecordHeaders headers = new RecordHeaders();
        if (header != null) {
            headers.add("__value_schema_id", header);
        }
        return new Source("llm.prompts", 0, 0, 0, null, value, headers);
    }

    private void saysNotYetAtOnce(Source source) {
        long before = System.nanoTime();
        assertThatThrownBy(() -> decoder.decode(source)).isInstanceOf(RegistryUnavailableException.class);
        assertThat(Duration.ofNanos(System.nanoTime() - before)).isLessThan(Duration.ofSeconds(2));
    }

    private Prompt awaitDecoded(Source source) {
        for (int i = 0; i < 500; i++) {
            try {
                return decoder.decode(source);
            } catch (RegistryUnavailableException e) {
                ClusterClient.sleep(10);
            }
        }
        throw new AssertionError("not decoded within 5 s");
    }

    @Test
    void readsAPromptOnceTheRegistryHasAnswered() {
        saysNotYetAtOnce(ofId(7));
        saysNotYetAtOnce(ofId(7));
        answer.countDown();
        assertThat(awaitDecoded(ofId(7)).getRequestId()).isEqualTo("r-1");
        assertThat(decoder.decode(ofId(7)).getRequestId()).isEqualTo("r-1");
        assertThat(asked).hasValue(1);
    }

    @Test
    void doesNotWaitForTheSchemaOfAHeaderEither() {
        saysNotYetAtOnce(ofGuid(2));
        answer.countDown();
        assertThat(awaitDecoded(ofGuid(2)).getRequestId()).isEqualTo("r-1");
        assertThat(decoder.decode(ofGuid(2)).getRequestId()).isEqualTo("r-1");
        assertThat(asked).hasValue(1);
    }

    @Test
    void refusesAPromptWhoseSchemaDoesNotExist() {
        for (Source source : new Source[] {ofId(8), ofGuid(9)}) {
            saysNotYetAtOnce(source);
            answer.countDown();
            assertThatThrownBy(() -> awaitDecoded(source))
                    .isInstanceOfSatisfying(UndecodableException.class, e -> assertThat(e.code()).isEqualTo("SCHEMA_UNKNOWN_ID"));
        }
    }

    @Test
    void refusesWhatNamesNoSchemaWithoutAsking() {
        byte[] noMagic = wire.clone();
        noMagic[0] = 1;
        for (byte[] value : new byte[][] {null, {}, {0, 0, 0, 0}, noMagic}) {
            assertThatThrownBy(() -> decoder.decode(source(value, null))).isInstanceOf(UndecodableException.class);
        }
        assertThatThrownBy(() -> decoder.decode(source(null, new byte[17])))
                .isInstanceOfSatisfying(UndecodableException.class, e -> assertThat(e.code()).isEqualTo("SCHEMA_NULL"));
        assertThatThrownBy(() -> awaitDecoded(source(wire, new byte[] {9})))
                .isInstanceOfSatisfying(UndecodableException.class, e -> assertThat(e.code()).isEqualTo("SCHEMA_MAGIC"));
        assertThat(asked).hasValue(0);
    }
}

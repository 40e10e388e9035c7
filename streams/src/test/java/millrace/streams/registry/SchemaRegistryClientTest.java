package millrace.streams.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.schemas.Prompt;
import millrace.schemas.Usage;
import millrace.streams.embedded.EmbeddedRegistry;
import org.apache.avro.Schema;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class SchemaRegistryClientTest {
    private static final String JSON_TYPE = "application/vnd.schemaregistry.v1+json";
    private final List<String> seen = Collections.synchronizedList(new ArrayList<>());
    private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();
    private HttpServer server;

    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setExecutor(threads);
        server.start();
    }

    @AfterEach
    void stop() {
        server.stop(0);
        threads.shutdownNow();
    }

    private interface Behaviour {
        void answer(HttpExchange exchange) throws Exception;
    }

    private String serve(Behaviour behaviour) {
        server.createContext("/", exchange -> {
            seen.add(exchange.getRequestMethod() + " " + exchange.getRequestURI());
            try (exchange) {
                behaviour.answer(exchange);
            } catch (IOException e) {
                throw e;
            } catch (Exception e) {
                throw new IOException(e);
            }
        });
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    private static void reply(HttpExchange exchange, int status, String type, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
    }

    private static SchemaRegistryClient client(String url, Object... more) {
        Map<String, Object> configs = new HashMap<>(Map.of(
                "schema.registry.url", url, "max.retries", 1, "retries.wait.ms", 1, "http.read.timeout.ms", 30_000));
        for (int i = 0; i < more.length; i += 2) {
            configs.put((String) more[i], more[i + 1]);
        }
        return SchemaRegistryClient.open(configs);
    }

    private static RegistryException refused(SchemaRegistryClient client) {
        try (client) {
            return catchThrowableOfType(RegistryException.class, () -> client.byId(7));
        }
    }

    @Test
    void registersLooksUpAndCaches() {
        EmbeddedRegistry registry = EmbeddedRegistry.inMemory("127.0.0.1", 0);
        try (SchemaRegistryClient client = client(registry.url())) {
            Schema schema = Prompt.getClassSchema();
            assertThat(client.register("p-value", schema)).isEqualTo(1);
            assertThat(client.lookup("p-value", schema)).isEqualTo(new RegisteredSchema("p-value", 1, 1, schema));
            assertThat(client.latest("p-value").schema()).isEqualTo(schema);
            assertThat(client.versions("p-value")).hasSize(1);
            assertThat(client.versions("no such subject?")).isEmpty();
            client.ping();
            registry.close();
            assertThat(client.byId(1)).isEqualTo(schema);
            assertThat(client.register("p-value", schema)).isEqualTo(1);
        } finally {
            registry.close();
        }
    }

    /// Whatever a server says, it is a schema or a refusal that names the registry.
    @Test
    void readsAnyAnswerOrRefusesIt() {
        String sound = "{\"schema\":\"{\\\"type\\\":\\\"record\\\",\\\"name\\\":\\\"R\\\",\\\"fields\\\":[]}\",\"schemaType\":\"AVRO\"}";
        String[] words = {"null", "{}", "[", "1e99", "\\u0000", "\"references\":[{\"name\":\"R\"}]", "\\\"enum\\\"", "record", ","};
        SplittableRandom random = new SplittableRandom(1);
        String[] answer = {sound};
        int[] status = {200};
        String url = serve(exchange -> reply(exchange, status[0], JSON_TYPE, answer[0]));
        int read = 0;
        for (int i = 0; i < 400; i++) {
            StringBuilder text = new StringBuilder(sound);
            for (int n = random.nextInt(4); n > 0; n--) {
                int at = random.nextInt(text.length());
                switch (random.nextInt(3)) {
                    case 0 -> text.setCharAt(at, (char) random.nextInt(1, 300));
                    case 1 -> text.delete(at, Math.min(text.length(), at + random.nextInt(1, 6)));
                    default -> text.insert(at, words[random.nextInt(words.length)]);
                }
            }
            answer[0] = text.toString();
            status[0] = random.nextInt(8) == 0 ? 404 : 200;
            try (SchemaRegistryClient client = client(url, "max.retries", 0)) {
                assertThat(client.byId(7)).as(answer[0]).isNotNull();
                read++;
            } catch (RegistryException e) {
                assertThat(e.code()).as(answer[0]).matches("(REGISTRY|SCHEMA)_[A-Z_]+");
            } catch (RuntimeException e) {
                throw new AssertionError("round " + i + ": " + answer[0], e);
            }
        }
        assertThat(read).isGreaterThan(20);
    }

    @Test
    void tellsAnUnknownIdFromATroubledRegistry() {
        try (EmbeddedRegistry registry = EmbeddedRegistry.inMemory("127.0.0.1", 0)) {
            RegistryException e = refused(client(registry.url()));
            assertThat(e.code()).isEqualTo("SCHEMA_UNKNOWN_ID");
            assertThat(e.isTransient()).isFalse();
            assertThat(e).hasMessage("schema registry %s: there is no schema of id 7".formatted(registry.url()));
        }
    }

    @Test
    void reportsWhatTheRegistryRefuses() {
        try (EmbeddedRegistry registry = EmbeddedRegistry.inMemory("127.0.0.1", 0);
                SchemaRegistryClient client = client(registry.url())) {
            assertThatThrownBy(() -> client.latest("x"))
                    .isInstanceOfSatisfying(RegistryException.class, e -> {
                        assertThat(e.code()).isEqualTo("REGISTRY_REFUSED");
                        assertThat(e.errorCode()).isEqualTo(40401);
                        assertThat(e.isTransient()).isFalse();
                    })
                    .hasMessage("schema registry %s: GET /subjects/x/versions/latest: refused with 40401: Subject 'x'"
                            + " not found.", registry.url());
        }
    }

    @Test
    void doesNotFollowRedirects() {
        String url = serve(x -> {
            x.getResponseHeaders().set("Location", "http://169.254.169.254/latest/meta-data/");
            x.sendResponseHeaders(301, -1);
        });
        RegistryException e = refused(client(url));
        assertThat(e.code()).isEqualTo("REGISTRY_REDIRECT");
        assertThat(e.isTransient()).isTrue();
        assertThat(e).hasMessage("schema registry %s: expected an answer, got a redirect (HTTP 301), which is not"
                + " followed; set schema.registry.url to where the registry is", url);
        assertThat(seen).hasSize(1);
    }

    @Test
    void doesNotTakeAWebPageForAnAnswer() {
        String url = serve(x -> reply(x, 200, "text/html", "<html>Welcome</html>"));
        RegistryException e = refused(client(url));
        assertThat(e.code()).isEqualTo("REGISTRY_RESPONSE");
        assertThat(e.isTransient()).isTrue();
        assertThat(e).hasMessage("schema registry %s: expected JSON, got HTTP 200 with content type \"text/html\"; is"
                + " schema.registry.url that of a schema registry?", url);
    }

    @Test
    void doesNotTakeSomeoneElses404ForAnUnknownId() {
        String url = serve(x -> reply(x, 404, "application/json", "{\"detail\":\"no route\"}"));
        assertThat(refused(client(url)).code()).isEqualTo("REGISTRY_RESPONSE");
    }

    @Test
    void refusesAnswersThatAreNoSchema() {
        List<String> bodies = List.of("", "nonsense", "[", "\"x\"", "{}", "{\"schema\":3}");
        AtomicInteger next = new AtomicInteger();
        String url = serve(x -> reply(x, 200, JSON_TYPE, bodies.get(next.getAndIncrement())));
        for (String body : bodies) {
            assertThat(refused(client(url)).code()).as(body).isEqualTo("REGISTRY_RESPONSE");
        }
    }

    @Test
    void refusesSchemasOfAnotherTypeOrThatAvroRefuses() {
        List<String> bodies = List.of("{\"schema\":\"syntax\",\"schemaType\":\"PROTOBUF\"}", "{\"schema\":\"{\"}");
        AtomicInteger next = new AtomicInteger();
        String url = serve(x -> reply(x, 200, JSON_TYPE, bodies.get(next.getAndIncrement())));
        for (String body : bodies) {
            assertThat(refused(client(url)).code()).as(body).isEqualTo("SCHEMA_FOREIGN");
        }
    }

    @Test
    void stopsReadingAnEndlessAnswer() {
        String url = serve(x -> {
            x.getResponseHeaders().set("Content-Type", JSON_TYPE);
            x.sendResponseHeaders(200, 0);
            byte[] chunk = new byte[1 << 16];
            for (int i = 0; i < 1_000; i++) {
                x.getResponseBody().write(chunk);
            }
        });
        RegistryException e = refused(client(url));
        assertThat(e.code()).isEqualTo("REGISTRY_RESPONSE");
        assertThat(e).hasMessageContaining("expected an answer of at most 4194304 bytes, got a longer one");
    }

    @Test
    void givesUpOnAServerThatHangs() throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        String url = serve(_ -> done.await(30, TimeUnit.SECONDS));
        long start = System.nanoTime();
        RegistryException e = refused(client(url, "http.read.timeout.ms", 300));
        done.countDown();
        assertThat(e.code()).isEqualTo("REGISTRY_TIMEOUT");
        assertThat(e.isTransient()).isTrue();
        assertThat(e).hasMessage("schema registry %s: expected an answer within 300 ms, got none; is it overloaded?"
                + " (http.read.timeout.ms)", url);
        assertThat(seen).as("one retry").hasSize(2);
        assertThat(System.nanoTime() - start).isLessThan(TimeUnit.SECONDS.toNanos(15));
    }

    @Test
    void givesUpOnABodyThatNeverEnds() {
        String url = serve(x -> {
            x.getResponseHeaders().set("Content-Type", JSON_TYPE);
            x.sendResponseHeaders(200, 100);
            x.getResponseBody().write('{');
            x.getResponseBody().flush();
            Thread.sleep(3_000);
        });
        assertThat(refused(client(url, "max.retries", 0, "http.read.timeout.ms", 300)).code())
                .isEqualTo("REGISTRY_TIMEOUT");
    }

    @Test
    void triesAgainAfterAServerError() {
        String url = serve(x -> {
            if (seen.size() == 1) {
                reply(x, 500, JSON_TYPE, "{\"error_code\":50001,\"message\":\"store\"}");
            } else {
                reply(x, 200, JSON_TYPE, "{\"schema\":\"\\\"string\\\"\"}");
            }
        });
        try (SchemaRegistryClient client = client(url)) {
            assertThat(client.byId(7)).isEqualTo(Schema.create(Schema.Type.STRING));
        }
        assertThat(seen).containsExactly(
                "GET /schemas/ids/7?fetchMaxId=false", "GET /schemas/ids/7?fetchMaxId=false");
    }

    @Test
    void reportsAServerThatKeepsFailing() {
        String url = serve(x -> reply(x, 503, "text/plain", "later"));
        RegistryException e = refused(client(url));
        assertThat(e.code()).isEqualTo("REGISTRY_FAILED");
        assertThat(e.isTransient()).isTrue();
        assertThat(seen).hasSize(2);
    }

    @Test
    void goesToTheNextUrlWhenOneIsDown() throws IOException {
        String down = "http://127.0.0.1:" + unusedPort();
        try (EmbeddedRegistry registry = EmbeddedRegistry.inMemory("127.0.0.1", 0);
                SchemaRegistryClient client = client(down + "," + registry.url(), "max.retries", 0)) {
            assertThat(client.register("u-value", Usage.getClassSchema())).isEqualTo(1);
        }
    }

    @Test
    void reportsThatNoUrlAnswers() throws IOException {
        String down = "http://127.0.0.1:" + unusedPort();
        RegistryException e = refused(client(down));
        assertThat(e.code()).isEqualTo("REGISTRY_UNREACHABLE");
        assertThat(e.isTransient()).isTrue();
        assertThat(e).hasMessage("schema registry %s: expected an answer, got none (ConnectException: no connection);"
                + " is it running, and is schema.registry.url right?", down);
    }

    @Test
    void sendsCredentialsAndNeverShowsThem() {
        List<String> headers = Collections.synchronizedList(new ArrayList<>());
        String url = serve(x -> {
            headers.add(x.getRequestHeaders().getFirst("Authorization"));
            reply(x, 401, JSON_TYPE, "{\"error_code\":40101,\"message\":\"Unauthorized\"}");
        });
        RegistryException e = refused(client(url,
                "basic.auth.credentials.source", "USER_INFO", "basic.auth.user.info", "user:secret"));
        assertThat(e.code()).isEqualTo("REGISTRY_REFUSED");
        refused(client(url.replace("http://", "http://user:secret@")));
        refused(client(url, "bearer.auth.token", "secret"));
        assertThat(headers).containsExactly("Basic dXNlcjpzZWNyZXQ=", "Basic dXNlcjpzZWNyZXQ=", "Bearer secret");
        assertThat(e).hasMessageNotContaining("secret");
        assertThat(RegistryConfig.of(Map.of("schema.registry.url", url.replace("//", "//user:secret@"))).toString())
                .doesNotContain("secret");
    }

    @Test
    void followsReferencesOfASchema() {
        String url = serve(x -> reply(x, 200, JSON_TYPE, x.getRequestURI().getPath().startsWith("/schemas")
                ? "{\"schema\":\"{\\\"type\\\":\\\"array\\\",\\\"items\\\":\\\"n.R\\\"}\","
                        + "\"references\":[{\"name\":\"n.R\",\"subject\":\"r\",\"version\":2}]}"
                : "{\"schema\":\"{\\\"type\\\":\\\"record\\\",\\\"name\\\":\\\"n.R\\\",\\\"fields\\\":[]}\"}"));
        try (SchemaRegistryClient client = client(url)) {
            assertThat(client.byId(7).getElementType().getFullName()).isEqualTo("n.R");
        }
        assertThat(seen.get(1)).isEqualTo("GET /subjects/r/versions/2");
    }

    private static int unusedPort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}

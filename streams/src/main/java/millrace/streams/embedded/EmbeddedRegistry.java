package millrace.streams.embedded;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import millrace.streams.registry.server.RegistryApi;
import millrace.streams.registry.server.RegistryApi.Answer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// A schema registry inside this process: Confluent's REST interface on the JDK's HTTP server.
///
/// [#start] keeps its state in the topic `_schemas` of a cluster and finds it again at the next start;
/// [#inMemory] forgets it on [#close]. There is no authentication: bind it to an address that only friends can reach.
public final class EmbeddedRegistry implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(EmbeddedRegistry.class);
    private static final int MAX_BODY = 1 << 20;
    private static final Duration BROKER_TIMEOUT = Duration.ofSeconds(30);
    private static final String CONTENT_TYPE = "application/vnd.schemaregistry.v1+json";
    private static final Set<String> ACCEPTED_TYPES = Set.of(
            CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream");

    private final HttpServer server;
    private final ExecutorService threads;
    private final @Nullable SchemasTopic topic;
    private final String host;

    private EmbeddedRegistry(
            HttpServer server, ExecutorService threads, @Nullable SchemasTopic topic, String host) {
        this.server = server;
        this.threads = threads;
        this.topic = topic;
        this.host = host;
    }

    /// Starts a registry over the cluster at `bootstrap`, which gets a topic `_schemas` when it has none. Port 0 takes
    /// a free one. Returns when the state is read and requests are answered.
    public static EmbeddedRegistry start(String bootstrap, String host, int port) {
        return start(bootstrap, host, port, BROKER_TIMEOUT);
    }

    static EmbeddedRegistry start(String bootstrap, String host, int port, Duration brokerTimeout) {
        HttpServer server = bind(host, port);
        SchemasTopic topic = new SchemasTopic(bootstrap, brokerTimeout);
        boolean started = false;
        try {
            EmbeddedRegistry registry = serve(server, load(topic), topic, host);
            started = true;
            return registry;
        } finally {
            if (!started) {
                server.stop(0);
                topic.close();
            }
        }
    }

    /// Starts a registry that needs no cluster and keeps nothing.
    public static EmbeddedRegistry inMemory(String host, int port) {
        return serve(bind(host, port), RegistryApi.inMemory(), null, host);
    }

    /* The cluster's id is only known once the topic is open, and the registry wants it when it is built. */
    private static RegistryApi load(SchemasTopic topic) {
        record Entry(String key, @Nullable String value) {}
        List<Entry> entries = new ArrayList<>();
        String clusterId = topic.open((key, value) -> entries.add(new Entry(key, value)));
        RegistryApi api = new RegistryApi(topic, clusterId);
        for (Entry entry : entries) {
            try {
                api.replay(entry.key, entry.value);
            } catch (IOException e) {
                String message = "embedded registry: topic %s holds a record that is not JSON (%s);"
                        + " was it written by something else?";
                throw new EmbeddedException("EMBEDDED_STORE", message.formatted(SchemasTopic.NAME, e.getMessage()), e);
            }
        }
        return api;
    }

    private static HttpServer bind(String host, int port) {
        try {
            return HttpServer.create(new InetSocketAddress(host, port), 0);
        } catch (BindException | UnknownHostException e) {
            String message = "embedded registry: cannot listen on %s:%d: %s; "
                    + "stop what uses the port, or take port 0 for a free one";
            throw new EmbeddedException("EMBEDDED_PORT", message.formatted(host, port, e.getMessage()), e);
        } catch (IOException | RuntimeException e) {
            throw new EmbeddedException("EMBEDDED_START",
                    "embedded registry: cannot start on %s:%d: %s".formatted(host, port, e), e);
        }
    }

    private static EmbeddedRegistry serve(
            HttpServer server, RegistryApi api, @Nullable SchemasTopic topic, String host) {
        ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();
        server.setExecutor(threads);
        server.createContext("/", exchange -> answer(exchange, api));
        server.start();
        return new EmbeddedRegistry(server, threads, topic, host);
    }

    /// Base URL for clients, `http://host:port`.
    public String url() {
        String name = host.indexOf(':') >= 0 ? "[" + host + "]" : host;
        return "http://" + name + ":" + port();
    }

    public int port() {
        return server.getAddress().getPort();
    }

    @Override
    public void close() {
        server.stop(0);
        threads.shutdownNow();
        if (topic != null) {
            topic.close();
        }
    }

    private static void answer(HttpExchange exchange, RegistryApi api) {
        try (exchange) {
            Answer answer = answerTo(exchange, api);
            exchange.getResponseHeaders().set("Content-Type", CONTENT_TYPE);
            boolean head = exchange.getRequestMethod().equals("HEAD");
            exchange.sendResponseHeaders(answer.status(), head ? -1 : answer.body().length);
            if (!head) {
                exchange.getResponseBody().write(answer.body());
            }
        } catch (IOException e) {
            LOG.debug("embedded registry: a client went away", e);
        }
    }

    private static Answer answerTo(HttpExchange exchange, RegistryApi api) throws IOException {
        byte[] body;
        try (InputStream in = exchange.getRequestBody()) {
            body = in.readNBytes(MAX_BODY + 1);
        }
        if (body.length > MAX_BODY) {
            return Answer.error(413, 413, "Request body longer than " + MAX_BODY + " bytes");
        }
        if (body.length > 0 && !isAccepted(exchange.getRequestHeaders().getFirst("Content-Type"))) {
            // Also keeps web pages out: a browser may send text/plain anywhere without asking.
            return Answer.error(415, 415, "HTTP 415 Unsupported Media Type");
        }
        var uri = exchange.getRequestURI();
        try {
            return api.handle(exchange.getRequestMethod(), uri.getRawPath(), uri.getRawQuery(), body);
        } catch (EmbeddedException e) {
            LOG.warn("{}", e.getMessage());
            return Answer.error(500, 50001, "Error in the backend data store: " + e.code());
        } catch (RuntimeException e) {
            LOG.error("embedded registry: {} {} failed", exchange.getRequestMethod(), uri.getRawPath(), e);
            return Answer.error(500, 500, "Internal Server Error");
        }
    }

    private static boolean isAccepted(@Nullable String contentType) {
        if (contentType == null) {
            return true;
        }
        int parameters = contentType.indexOf(';');
        String type = parameters < 0 ? contentType : contentType.substring(0, parameters);
        return ACCEPTED_TYPES.contains(type.strip().toLowerCase(Locale.ROOT));
    }
}

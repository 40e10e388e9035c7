package millrace.streams.console;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Probes, metrics and the console on the JDK's HTTP server: a fixed table of paths, read with GET or HEAD.
///
/// Every answer forbids the browser to load anything from elsewhere, to run inline scripts, and to be framed. Where the
/// server is bound to the loopback address, the console answers only requests that name it so: otherwise a foreign
/// page could have its own name resolve to this machine and read the console through the visitor's browser.
public final class HttpDoor implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(HttpDoor.class);
    private static final String TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8";
    private static final String OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    private static final Set<String> LOOPBACK_NAMES = Set.of("localhost", "127.0.0.1", "[::1]");
    private static final Map<String, String> SECURITY = Map.of(
            "Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                    + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options", "nosniff",
            "X-Frame-Options", "DENY",
            "Referrer-Policy", "no-referrer",
            "Cross-Origin-Opener-Policy", "same-origin",
            "Cross-Origin-Resource-Policy", "same-origin",
            "Permissions-Policy", "camera=(), geolocation=(), microphone=()");

    /// What one path answers.
    ///
    /// @param etag names the content where it may be kept by the browser, and is asked for again; null where it may not
    record Answer(int status, String type, byte[] body, @Nullable String etag) {
        static Answer of(int status, String type, String body) {
            return new Answer(status, type, body.getBytes(StandardCharsets.UTF_8), null);
        }

        static Answer json(int status, String body) {
            return of(status, "application/json", body);
        }
    }

    /// Answers one path.
    interface Page {
        /// @param query the query's parameters, decoded; the first of each name
        Answer get(Map<String, String> query);
    }

    private final HttpServer server;
    private final ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor();
    private final Map<String, Page> open = new HashMap<>();
    private final Map<String, Page> guarded = new HashMap<>();
    private final PrometheusMeterRegistry metrics;
    private final boolean loopback;

    private HttpDoor(HttpServer server, Supplier<Health> health, PrometheusMeterRegistry metrics, @Nullable Console console) {
        this.server = server;
        this.metrics = metrics;
        InetAddress bound = server.getAddress().getAddress();
        this.loopback = bound != null && bound.isLoopbackAddress();
        probe("live", () -> Health.json(health.get().live(), Map.of()), () -> Health.isUp(health.get().live()));
        probe("started", () -> Health.json(health.get().started(), Map.of()), () -> Health.isUp(health.get().started()));
        Page ready = query -> {
            Health now = health.get();
            return Answer.json(Health.isUp(now.ready()) ? 200 : 503, Health.json(now.ready(), now.data()));
        };
        open.put("/ready", ready);
        open.put("/health/ready", ready);
        if (console != null) {
            guarded.putAll(console.pages());
        }
        server.setExecutor(executor);
        server.createContext("/", this::serve);
    }

    private void probe(String name, Supplier<String> json, Supplier<Boolean> up) {
        Page page = query -> Answer.json(up.get() ? 200 : 503, json.get());
        open.put("/" + name, page);
        open.put("/health/" + name, page);
    }

    /// @param console null for none
    /// @throws IllegalStateException where the address cannot be bound
    public static HttpDoor start(
            String host, int port, Supplier<Health> health, PrometheusMeterRegistry metrics, @Nullable Console console) {
        HttpServer http;
        try {
            http = HttpServer.create(new InetSocketAddress(host, port), 0);
        } catch (BindException e) {
            throw new IllegalStateException("health server: " + host + ":" + port
                    + " cannot be bound (" + e.getMessage() + "); set health.port to a free port, 0 for any, -1 for none", e);
        } catch (IOException e) {
            throw new IllegalStateException("health server: cannot start on " + host + ":" + port + ": " + e.getMessage(), e);
        }
        HttpDoor door = new HttpDoor(http, health, metrics, console);
        http.start();
        return door;
    }

    public int port() {
        return server.getAddress().getPort();
    }

    private void serve(HttpExchange exchange) throws IOException {
        try (exchange) {
            Answer answer;
            try {
                answer = answer(exchange);
            } catch (RuntimeException e) {
                LOG.warn("{}: cannot be answered: {}", exchange.getRequestURI().getPath(), e.toString());
                answer = Answer.of(500, "text/plain; charset=utf-8", "the service cannot answer this now; its log says why\n");
            }
            send(exchange, answer);
        } catch (IOException e) {
            // Who asked has gone.
            LOG.debug("{}: {}", exchange.getRequestURI().getPath(), e.toString());
        }
    }

    private Answer answer(HttpExchange exchange) {
        String method = exchange.getRequestMethod();
        if (!method.equals("GET") && !method.equals("HEAD")) {
            exchange.getResponseHeaders().set("Allow", "GET, HEAD");
            return Answer.of(405, "text/plain; charset=utf-8", "expected GET or HEAD: everything here is read-only\n");
        }
        String path = exchange.getRequestURI().getPath();
        if (path.equals("/metrics")) {
            return scrape(exchange.getRequestHeaders().getFirst("Accept"));
        }
        Page page = open.get(path);
        if (page == null) {
            page = guarded.get(path);
            if (page != null && !isMeant(exchange.getRequestHeaders().getFirst("Host"))) {
                return Answer.of(421, "text/plain; charset=utf-8",
                        "expected localhost or a loopback address as the host: the console is bound to this machine\n");
            }
        }
        return page == null
                ? Answer.of(404, "text/plain; charset=utf-8", "no such page\n")
                : page.get(Query.parse(exchange.getRequestURI().getRawQuery()));
    }

    private boolean isMeant(@Nullable String host) {
        if (!loopback) {
            return true;
        }
        return host != null && LOOPBACK_NAMES.contains(host.replaceFirst(":\\d*$", "").toLowerCase(Locale.ROOT));
    }

    private Answer scrape(@Nullable String accept) {
        String type = accept != null && accept.contains("application/openmetrics-text") ? OPEN_METRICS : TEXT_FORMAT;
        return Answer.of(200, type, metrics.scrape(type));
    }

    private static void send(HttpExchange exchange, Answer answer) throws IOException {
        Headers headers = exchange.getResponseHeaders();
        SECURITY.forEach(headers::set);
        headers.set("Content-Type", answer.type());
        boolean known = answer.etag() != null && answer.etag().equals(exchange.getRequestHeaders().getFirst("If-None-Match"));
        if (answer.etag() == null) {
            headers.set("Cache-Control", "no-store");
        } else {
            headers.set("Cache-Control", "no-cache");
            headers.set("ETag", answer.etag());
        }
        if (known) {
            exchange.sendResponseHeaders(304, -1);
        } else if (exchange.getRequestMethod().equals("HEAD")) {
            headers.set("Content-Length", Integer.toString(answer.body().length));
            exchange.sendResponseHeaders(answer.status(), -1);
        } else {
            exchange.sendResponseHeaders(answer.status(), answer.body().length == 0 ? -1 : answer.body().length);
            exchange.getResponseBody().write(answer.body());
        }
    }

    @Override
    public void close() {
        server.stop(0);
        executor.shutdownNow();
    }
}

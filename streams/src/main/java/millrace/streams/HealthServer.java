package millrace.streams;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// `/health/live`, `/health/ready`, `/health/started` and `/metrics` on the JDK's HTTP server.
final class HealthServer implements AutoCloseable {
    /// The state of the service in named checks; a probe is UP when all of its checks are.
    ///
    /// @param data what a check of readiness says beside its state, by the name of the check
    record Health(
            Map<String, Boolean> live,
            Map<String, Boolean> ready,
            Map<String, Boolean> started,
            Map<String, Map<String, String>> data) {}

    private final HttpServer server;
    private final ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor();

    private HealthServer(HttpServer server) {
        this.server = server;
    }

    static HealthServer start(String host, int port, Supplier<Health> health, PrometheusMeterRegistry metrics) {
        HttpServer http;
        try {
            http = HttpServer.create(new InetSocketAddress(host, port), 0);
        } catch (BindException e) {
            throw new IllegalStateException("health server: " + host + ":" + port
                    + " cannot be bound (" + e.getMessage() + "); set health.port to a free port, 0 for any, -1 for none", e);
        } catch (IOException e) {
            throw new IllegalStateException("health server: cannot start on " + host + ":" + port + ": " + e.getMessage(), e);
        }
        HealthServer self = new HealthServer(http);
        http.setExecutor(self.executor);
        http.createContext("/health/live", exchange -> answer(exchange, health.get().live(), Map.of()));
        http.createContext("/health/ready", exchange -> {
            Health now = health.get();
            answer(exchange, now.ready(), now.data());
        });
        http.createContext("/health/started", exchange -> answer(exchange, health.get().started(), Map.of()));
        http.createContext("/metrics", exchange ->
                send(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", metrics.scrape()));
        http.start();
        return self;
    }

    int port() {
        return server.getAddress().getPort();
    }

    private static void answer(HttpExchange exchange, Map<String, Boolean> checks, Map<String, Map<String, String>> data)
            throws IOException {
        boolean up = checks.values().stream().allMatch(Boolean::booleanValue);
        String list = new LinkedHashMap<>(checks).entrySet().stream()
                .map(e -> "{\"name\":\"" + e.getKey() + "\",\"status\":\"" + (e.getValue() ? "UP" : "DOWN") + "\""
                        + json(data.get(e.getKey())) + "}")
                .collect(Collectors.joining(","));
        send(exchange, up ? 200 : 503, "application/json",
                "{\"status\":\"" + (up ? "UP" : "DOWN") + "\",\"checks\":[" + list + "]}");
    }

    private static String json(@Nullable Map<String, String> data) {
        return data == null ? "" : data.entrySet().stream()
                .map(e -> quoted(e.getKey()) + ":" + quoted(e.getValue()))
                .collect(Collectors.joining(",", ",\"data\":{", "}"));
    }

    private static String quoted(String text) {
        return '"' + text.replaceAll("[^ -~]", "?").replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static void send(HttpExchange exchange, int status, String type, String body) throws IOException {
        try (exchange) {
            byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", type);
            exchange.sendResponseHeaders(status, bytes.length);
            exchange.getResponseBody().write(bytes);
        }
    }

    @Override
    public void close() {
        server.stop(0);
        executor.shutdownNow();
    }
}

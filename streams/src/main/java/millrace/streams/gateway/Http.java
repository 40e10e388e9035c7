package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// One exchange: what was asked, and the ways to answer.
final class Http {
    private static final Pattern TRACEPARENT = Pattern.compile("[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}");
    private static final Pattern TRACESTATE = Pattern.compile("[ -~]{1,512}");

    private final HttpExchange exchange;
    private final String path;
    private boolean answered;
    private int status;

    Http(HttpExchange exchange) {
        this.exchange = exchange;
        String raw = exchange.getRequestURI().getPath();
        path = raw == null ? "" : raw.length() > 1 && raw.endsWith("/") ? raw.substring(0, raw.length() - 1) : raw;
    }

    String method() {
        return exchange.getRequestMethod();
    }

    String path() {
        return path;
    }

    /// Status of the answer; 0 before there is one.
    int status() {
        return status;
    }

    boolean isAnswered() {
        return answered;
    }

    @Nullable String header(String name) {
        return exchange.getRequestHeaders().getFirst(name);
    }

    /// The W3C trace context of the request, where it has a valid one.
    Map<String, String> trace() {
        Map<String, String> trace = new LinkedHashMap<>();
        String parent = header("traceparent");
        if (parent != null && TRACEPARENT.matcher(parent).matches()) {
            trace.put("traceparent", parent);
            String state = header("tracestate");
            if (state != null && TRACESTATE.matcher(state).matches()) {
                trace.put("tracestate", state);
            }
        }
        return trace;
    }

    InputStream body() {
        return exchange.getRequestBody();
    }

    /// The whole body as JSON.
    ///
    /// @throws ApiException 413 if it is larger than the most, 400 if it is no JSON object
    ObjectNode json(int mostBytes) throws IOException {
        byte[] bytes = exchange.getRequestBody().readNBytes(mostBytes + 1);
        if (bytes.length > mostBytes) {
            throw tooLarge(mostBytes);
        }
        return Json.read(bytes);
    }

    static ApiException tooLarge(long mostBytes) {
        return new ApiException(413, "invalid_request_error", "request_too_large", null,
                "expected a body of at most " + mostBytes + " bytes, got more", -1);
    }

    void responseHeader(String name, String value) {
        exchange.getResponseHeaders().add(name, value);
    }

    void json(int code, ObjectNode body) throws IOException {
        send(code, "application/json", Json.bytes(body));
    }

    void text(int code, String type, String body) throws IOException {
        send(code, type, body.getBytes(StandardCharsets.UTF_8));
    }

    private void send(int code, String type, byte[] bytes) throws IOException {
        answered = true;
        status = code;
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(code, bytes.length == 0 ? -1 : bytes.length);
        if (bytes.length > 0) {
            exchange.getResponseBody().write(bytes);
        }
    }

    void file(Path file) throws IOException {
        answered = true;
        status = 200;
        long size = Files.size(file);
        exchange.getResponseHeaders().set("Content-Type", "application/jsonl");
        exchange.sendResponseHeaders(200, size == 0 ? -1 : size);
        if (size > 0) {
            Files.copy(file, exchange.getResponseBody());
        }
    }

    void error(ApiException e) throws IOException {
        if (e.retryAfterMs() >= 0) {
            // Whole seconds for HTTP; clients that know the other header come back as soon as they may.
            responseHeader("Retry-After", Long.toString(Math.max(1, (e.retryAfterMs() + 999) / 1_000)));
            responseHeader("retry-after-ms", Long.toString(e.retryAfterMs()));
        }
        json(e.status(), e.toJson());
    }

    /// Begins an answer of events.
    EventStream events() throws IOException {
        answered = true;
        status = 200;
        exchange.getResponseHeaders().set("Content-Type", "text/event-stream; charset=utf-8");
        exchange.getResponseHeaders().set("Cache-Control", "no-cache");
        // For proxies that would otherwise collect the events.
        exchange.getResponseHeaders().set("X-Accel-Buffering", "no");
        exchange.sendResponseHeaders(200, 0);
        return new EventStream(exchange.getResponseBody());
    }

    /// The segments of the path behind a prefix.
    List<String> segments(String prefix) {
        String rest = path.substring(Math.min(path.length(), prefix.length()));
        return rest.isEmpty() ? List.of() : List.of(rest.substring(1).split("/"));
    }
}

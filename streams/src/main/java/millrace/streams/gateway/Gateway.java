package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.MillraceClient;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The OpenAI interface on a port, over the topics of a cluster.
public final class Gateway implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Gateway.class);
    /// A request's head and body must arrive within this; seconds.
    private static final String REQUEST_SECONDS = "60";
    private static final long COME_AGAIN_MS = 1_000;
    private static final String CHAT = "/v1/chat/completions";
    private static final String TEXT = "/v1/completions";
    private static final String MODELS = "/v1/models";
    private static final String FILES = "/v1/files";
    private static final String BATCHES = "/v1/batches";

    private final HttpServer server;
    private final ExecutorService executor = Executors.newVirtualThreadPerTaskExecutor();
    private final GatewayConfig config;
    private final ApiKeys keys;
    private final MillraceClient client;
    private final Inference inference;
    private final Batches batches;
    private final ModelNames models;
    private final Semaphore permits;
    private final GatewayMetrics metrics;
    private volatile boolean stopping;

    /// Sets what the JDK's server reads once, when the first of a process is made; a process that makes another one before its
    /// gateway calls this before. An answer must not wait for the acknowledgement of the one before, and a client that sends
    /// its request by drops does not keep a thread for ever.
    public static void prepareProcess() {
        System.setProperty("sun.net.httpserver.nodelay", "true");
        if (System.getProperty("sun.net.httpserver.maxReqTime") == null) {
            System.setProperty("sun.net.httpserver.maxReqTime", REQUEST_SECONDS);
        }
    }

    /// Connects and listens.
    ///
    /// @throws IllegalStateException when the port cannot be bound
    public static Gateway start(GatewayConfig config) throws IOException {
        prepareProcess();
        ApiKeys keys = config.keysFile() == null ? ApiKeys.none() : ApiKeys.read(config.keysFile());
        HttpServer server;
        try {
            server = HttpServer.create(new InetSocketAddress(config.host(), config.port()), 0);
        } catch (IOException e) {
            throw new IllegalStateException("gateway: " + config.host() + ":" + config.port() + " cannot be bound (" + e.getMessage()
                    + "); set gateway.port to a free port, 0 for any", e);
        }
        MillraceClient client = null;
        try {
            client = MillraceClient.open(ClientConfig.of(config.service()).withTimeout(config.timeout()));
            return new Gateway(server, config, keys, client);
        } catch (RuntimeException | IOException e) {
            server.stop(0);
            if (client != null) {
                client.close();
            }
            throw e;
        }
    }

    private Gateway(HttpServer server, GatewayConfig config, ApiKeys keys, MillraceClient client) throws IOException {
        this.server = server;
        this.config = config;
        this.keys = keys;
        this.client = client;
        models = new ModelNames(config.models());
        models.readTail(config.service());
        permits = new Semaphore(config.maxConcurrent());
        metrics = new GatewayMetrics(() -> config.maxConcurrent() - permits.availablePermits());
        inference = new Inference(client, config, models, metrics);
        batches = new Batches(config);
        server.setExecutor(executor);
        server.createContext("/", this::handle);
        server.start();
    }

    public int port() {
        return server.getAddress().getPort();
    }

    private void handle(HttpExchange exchange) {
        long began = System.nanoTime();
        Http http = new Http(exchange);
        String endpoint = endpoint(http.path());
        try (exchange) {
            try {
                answer(http, endpoint);
            } catch (ApiException e) {
                refuse(http, e);
            } catch (IOException e) {
                // The client is gone; who waits for an answer has cancelled it.
                LOG.debug("{}: {}", endpoint, e.toString());
            } catch (RuntimeException e) {
                LOG.error("{}: failed", endpoint, e);
                refuse(http, ApiException.server(500, "internal_error", "the gateway failed; see its log"));
            }
        }
        metrics.request(endpoint, http.status(), System.nanoTime() - began);
    }

    private static void refuse(Http http, ApiException e) {
        if (http.isAnswered()) {
            return;
        }
        try {
            http.error(e);
        } catch (IOException gone) {
            LOG.debug("a refusal could not be sent: {}", gone.toString());
        }
    }

    /// The endpoint that a path belongs to, one of a fixed set.
    private static String endpoint(String path) {
        for (String known : new String[] {CHAT, TEXT, MODELS, FILES, BATCHES, "/health", "/metrics"}) {
            if (path.equals(known) || path.startsWith(known + "/")) {
                return known;
            }
        }
        return "other";
    }

    private void answer(Http http, String endpoint) throws IOException {
        switch (endpoint) {
            case "/health" -> {
                require(http, "GET");
                http.json(stopping ? 503 : 200, Json.object().put("status", stopping ? "DOWN" : "UP"));
            }
            case "/metrics" -> {
                require(http, "GET");
                http.text(200, "text/plain; version=0.0.4; charset=utf-8", metrics.scrape());
            }
            case "other" -> throw notThere();
            default -> {
                String tenant = keys.caller(http.header("Authorization")).tenant();
                if (stopping) {
                    throw new ApiException(503, "server_error", "shutting_down", null, "the gateway is being stopped; try another or again",
                            COME_AGAIN_MS);
                }
                known(http, endpoint, tenant);
            }
        }
    }

    private void known(Http http, String endpoint, @Nullable String tenant) throws IOException {
        switch (endpoint) {
            case CHAT, TEXT -> {
                require(http, "POST");
                if (!http.path().equals(endpoint)) {
                    throw notThere();
                }
                if (!permits.tryAcquire()) {
                    throw new ApiException(429, "rate_limit_error", "gateway_full", null,
                            "as many requests wait for answers as may (gateway.max.concurrent); come again", COME_AGAIN_MS);
                }
                try {
                    inference.answer(http, endpoint.equals(TEXT), tenant);
                } finally {
                    permits.release();
                }
            }
            case MODELS -> {
                require(http, "GET");
                models(http);
            }
            case FILES -> batches.files(http, http.segments(FILES), tenant);
            default -> batches.batches(http, http.segments(BATCHES), tenant);
        }
    }

    private static void require(Http http, String method) {
        if (!http.method().equals(method)) {
            throw new ApiException(405, "invalid_request_error", "method_not_allowed", null, "expected " + method + ", got another method", -1);
        }
    }

    private static ApiException notThere() {
        return ApiException.notFound("unknown_url", null, "there is nothing at this path; docs/gateway.md lists what there is");
    }

    private void models(Http http) throws IOException {
        String wanted = http.path().substring(MODELS.length());
        if (!wanted.isEmpty()) {
            String name = wanted.substring(1);
            if (!models.all().contains(name)) {
                throw ApiException.notFound("model_not_found", "model", "model: expected one that /v1/models lists, got another");
            }
            http.json(200, model(name));
            return;
        }
        ObjectNode list = Json.object().put("object", "list");
        ArrayNode data = list.putArray("data");
        models.all().forEach(name -> data.add(model(name)));
        http.json(200, list);
    }

    private static ObjectNode model(String name) {
        return Json.object().put("id", name).put("object", "model").put("created", 0).put("owned_by", "millrace");
    }

    /// Takes no new requests, lets those that wait have their answers, and disconnects.
    @Override
    public void close() {
        stopping = true;
        long until = System.nanoTime() + config.grace().toNanos() * 2;
        while (permits.availablePermits() < config.maxConcurrent() && System.nanoTime() < until) {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                break;
            }
        }
        server.stop(0);
        executor.shutdownNow();
        batches.close();
        client.close();
    }
}

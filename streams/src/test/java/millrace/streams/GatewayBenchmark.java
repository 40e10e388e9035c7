package millrace.streams;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.MillraceClient;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.gateway.Gateway;
import millrace.streams.gateway.GatewayConfig;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// What the gateway adds to the way over the topics, one request after the other, with an engine that echoes at once.
class GatewayBenchmark {
    private static final Logger LOG = LoggerFactory.getLogger(GatewayBenchmark.class);
    private static final int WARM_UP = 100;
    private static final int REQUESTS = 400;

    @TempDir
    private Path temp;

    @Test
    void addedLatency() throws Exception {
        // As in a process of its own; here the registry has the first server.
        Gateway.prepareProcess();
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of("state.dir", temp.resolve("state").toString(), "topics.partitions", "1", "health.port", "-1",
                    "gateway.port", "0", "gateway.dir", temp.resolve("gateway").toString()));
            ServiceConfig config = ServiceConfig.of(settings);
            try (InferenceService _ = InferenceService.start(config, c -> new EchoEngine(), true, line -> {});
                    Gateway gateway = Gateway.start(GatewayConfig.of(config));
                    MillraceClient client = MillraceClient.open(ClientConfig.of(config));
                    HttpClient http = HttpClient.newHttpClient()) {
                int[] number = {0};
                for (int round = 0; round < 3; round++) {
                    measure("topics", () -> client.send(prompt("p-" + number[0]++)).completion().get(30, TimeUnit.SECONDS));
                    measure("gateway", () -> http.send(request(gateway, false), BodyHandlers.ofString()));
                    measure("first event with text", () -> firstText(http, gateway));
                }
            }
        }
    }

    private static Prompt prompt(String id) {
        return Prompt.newBuilder().setRequestId(id).setMessages(List.of(new Message("user", "hello there", null, null, null, List.of()))).build();
    }

    private static HttpRequest request(Gateway gateway, boolean stream) {
        var body = new ObjectMapper().createObjectNode().put("stream", stream);
        body.putArray("messages").addObject().put("role", "user").put("content", "hello there");
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + gateway.port() + "/v1/chat/completions"))
                .POST(HttpRequest.BodyPublishers.ofString(body.toString())).build();
    }

    private static long firstText(HttpClient http, Gateway gateway) throws Exception {
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(
                http.send(request(gateway, true), BodyHandlers.ofInputStream()).body(), StandardCharsets.UTF_8))) {
            long at = 0;
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                at = at == 0 && line.contains("\"content\":\"hello") ? System.nanoTime() : at;
            }
            return at;
        }
    }

    private static void measure(String what, Callable<?> once) throws Exception {
        long[] micros = new long[REQUESTS];
        for (int i = -WARM_UP; i < REQUESTS; i++) {
            long began = System.nanoTime();
            Object result = once.call();
            long ended = result instanceof Long at ? at : System.nanoTime();
            if (i >= 0) {
                micros[i] = (ended - began) / 1_000;
            }
        }
        Arrays.sort(micros);
        LOG.info("{}: p50 {} us, p90 {} us, p99 {} us", what, micros[REQUESTS / 2], micros[REQUESTS * 9 / 10], micros[REQUESTS * 99 / 100]);
    }
}

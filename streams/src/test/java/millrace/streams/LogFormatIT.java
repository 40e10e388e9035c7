package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.schemas.Prompt;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// What a service writes to standard error with `log.format=json`.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class LogFormatIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TEXT = "a prompt that nobody else may read";
    private static final String PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    @TempDir
    private Path directory;

    @Test
    void everyLineIsAnObjectAndNoneHasAPromptsText() throws Exception {
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of(
                    "application.id", "json", "state.dir", directory.resolve("state").toString(), "topics.partitions", "1",
                    "health.port", "-1", "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "log.format", "json"));
            // The service makes a key only with a broker of its own.
            settings.put("audit.key.file", directory.resolve("audit.key").toString());
            millrace.integrity.NoteSigner.loadOrCreate(directory.resolve("audit.key"), "millrace.test", new java.security.SecureRandom());
            ServiceConfig config = ServiceConfig.of(settings);
            try (ServiceProcess process = ServiceProcess.start(directory, settings)) {
                long until = System.nanoTime() + Duration.ofSeconds(90).toNanos();
                while (!process.said().contains("\"ready\"") && System.nanoTime() < until) {
                    ClusterClient.sleep(50);
                }
                assertThat(process.said()).contains("\"ready\"");
                try (ClusterClient client = new ClusterClient(config)) {
                    RecordHeaders traced = new RecordHeaders();
                    traced.add("traceparent", PARENT.getBytes(StandardCharsets.UTF_8));
                    client.sendRaw(new byte[] {1}, TEXT.getBytes(StandardCharsets.UTF_8), traced);
                    client.send(Prompt.newBuilder().setRequestId("a").setPrompt(TEXT).build());
                    client.await("a", Duration.ofSeconds(60));
                }
                assertThat(process.stop()).isZero();
            }
        }
        List<JsonNode> events = new ArrayList<>();
        for (String line : Files.readAllLines(directory.resolve("service.log"))) {
            if (!line.equals("WARNING: Using incubator modules: jdk.incubator.vector")) { // the JVM's own, before anything runs
                events.add(JSON.readTree(line));
            }
        }
        assertThat(events).hasSizeGreaterThan(13).allSatisfy(event -> {
            assertThat(event.isObject()).isTrue();
            assertThat(Instant.parse(event.get("time").asText())).isBefore(Instant.now());
            assertThat(event.get("level").asText()).isIn("INFO", "WARN", "ERROR");
            assertThat(event.get("logger").asText()).isNotEmpty();
            assertThat(event.get("thread").asText()).isNotEmpty();
            assertThat(event.get("message").isTextual()).isTrue();
        });
        assertThat(events).extracting(event -> event.get("message").asText()).contains("ready", "stopped");
        assertThat(events.toString()).doesNotContain("nobody else");
    }
}

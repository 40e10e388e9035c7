package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.NoteSigner;
import millrace.integrity.audit.AuditReport;
import millrace.schemas.Prompt;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.clients.admin.Admin;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// A service that halts at each of the named places, where a crash would do the most harm, still answers exactly once.
class CrashPointsIT {
    private static final Logger LOG = LoggerFactory.getLogger(CrashPointsIT.class);
    private static final int PART = 20;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private Path directory;

    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES)
    void answersOnceThoughItHaltsAtEachNamedPoint() throws Exception {
        Path key = directory.resolve("audit.key");
        NoteSigner signer = NoteSigner.loadOrCreate(key, "millrace.test", new SecureRandom());
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            // Two at a time: answers that all come at once are handed on at once, and no place is reached a third time.
            settings.put("engine.max.batch", "2");
            settings.putAll(Map.of(
                    "engine.model", "glm-tiny", "engine.threads", "1", "engine.kv.bytes", "8000000", "health.port", "-1",
                    "topics.partitions", "1", "audit.origin", "millrace.test", "audit.key.file", key.toString(),
                    "state.dir", directory.resolve("state").toString(), "inflight.max", "16"));
            ServiceConfig config = ServiceConfig.of(settings);
            try (Admin admin = new KafkaClients(config).admin()) {
                new Topics(config).ensure(admin);
            }
            // The n-th time that a place is reached lies in the middle of a life's part.
            List<String> points = List.of("before-forward:3", "between-completion-and-audit:7", "before-commit:4", "restore");
            List<Prompt> prompts = CrashIT.prompts().subList(0, PART * (points.size() + 1));
            List<String> sent = new ArrayList<>();
            try (ClusterClient client = new ClusterClient(config)) {
                for (String point : points) {
                    try (ServiceProcess service =
                            ServiceProcess.start(directory, settings, "-Dmillrace.test.crash=" + point)) {
                        send(client, prompts, sent);
                        assertThat(service.exitCode()).as("%s:%n%s", point, service.tail()).isEqualTo(137);
                    }
                    LOG.info("halted at {} with {} of {} answered", point, client.answered(), sent.size());
                }
                try (ServiceProcess service = ServiceProcess.start(directory, settings)) {
                    send(client, prompts, sent);
                    sent.forEach(id -> client.await(id, Duration.ofSeconds(60)));
                    ClusterClient.sleep(2_500);
                    service.stop();
                    assertThat(service.tail()).endsWith("stopped");
                }
                client.assertExactlyOnce(sent);
                AuditReport report = client.audit(signer.verifier());
                assertThat(report.word()).as(report.text()).isEqualTo("ok");
                assertThat(report.matched()).isEqualTo(sent.size());
            }
        }
    }

    private static void send(ClusterClient client, List<Prompt> prompts, List<String> sent) {
        for (Prompt prompt : prompts.subList(sent.size(), sent.size() + PART)) {
            client.send(prompt);
            sent.add(prompt.getRequestId());
        }
    }
}

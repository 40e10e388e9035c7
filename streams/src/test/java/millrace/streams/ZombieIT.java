package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
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
import org.junit.jupiter.api.condition.DisabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/// An instance that stands still for longer than its session, and then goes on as if nothing had happened.
@DisabledOnOs(value = OS.WINDOWS, disabledReason = "there is no SIGSTOP")
class ZombieIT {
    private static final int PART = 40;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private Path directory;

    @Test
    @Timeout(value = 4, unit = TimeUnit.MINUTES)
    void answersOnceThoughAnInstanceComesBackFromTheDead() throws Exception {
        Path key = directory.resolve("audit.key");
        NoteSigner signer = NoteSigner.loadOrCreate(key, "millrace.test", new SecureRandom());
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of(
                    "engine.model", "glm-tiny", "engine.threads", "1", "engine.kv.bytes", "8000000", "health.port", "-1",
                    "topics.partitions", "2", "audit.origin", "millrace.test", "audit.key.file", key.toString(), "inflight.max", "16",
                    "kafka.main.consumer.session.timeout.ms", "6000"));
            ServiceConfig config = ServiceConfig.of(settings);
            try (Admin admin = new KafkaClients(config).admin()) {
                new Topics(config).ensure(admin);
            }
            List<Prompt> prompts = CrashIT.prompts().subList(0, 3 * PART);
            List<String> sent = new ArrayList<>();
            try (ClusterClient client = new ClusterClient(config);
                    ServiceProcess one = start("one", settings);
                    ServiceProcess two = start("two", settings)) {
                send(client, prompts, sent);
                sent.forEach(id -> client.await(id, Duration.ofSeconds(60)));
                send(client, prompts, sent);
                client.await(sent.get(PART), Duration.ofSeconds(60));
                one.signal("STOP");
                // The other takes over what the stopped one held, its prompts in flight among it.
                sent.forEach(id -> client.await(id, Duration.ofSeconds(90)));
                one.signal("CONT");
                send(client, prompts, sent);
                sent.forEach(id -> client.await(id, Duration.ofSeconds(90)));
                ClusterClient.sleep(2_500);
                assertThat(one.isAlive()).as(one.tail()).isTrue();
                assertThat(two.isAlive()).as(two.tail()).isTrue();
                one.stop();
                two.stop();
                client.assertExactlyOnce(sent);
                AuditReport report = client.audit(signer.verifier());
                assertThat(report.word()).as(report.text()).isEqualTo("ok");
            }
        }
    }

    private ServiceProcess start(String name, Map<String, String> settings) throws IOException {
        Map<String, String> own = new HashMap<>(settings);
        own.put("state.dir", directory.resolve(name).resolve("state").toString());
        return ServiceProcess.start(Files.createDirectories(directory.resolve(name)), own);
    }

    private static void send(ClusterClient client, List<Prompt> prompts, List<String> sent) {
        for (Prompt prompt : prompts.subList(sent.size(), sent.size() + PART)) {
            client.send(prompt);
            sent.add(prompt.getRequestId());
        }
    }
}

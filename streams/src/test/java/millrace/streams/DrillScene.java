package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import millrace.integrity.NoteSigner;
import millrace.integrity.audit.AuditReport;
import millrace.streams.drill.DrillLoad;
import millrace.streams.drill.DrillReport;
import millrace.streams.drill.DrillSettings;
import org.apache.kafka.clients.admin.Admin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The instances of one service on a cluster, a load on them, and what must hold when a drill is over.
final class DrillScene implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(DrillScene.class);
    private static final Duration PATIENCE = Duration.ofMinutes(3);

    private final Path directory;
    private final String name;
    private final Map<String, String> settings = new HashMap<>();
    private final NoteSigner signer;
    private final Map<String, ServiceProcess> instances = new LinkedHashMap<>();

    /// @param own settings beside those that every drill has
    DrillScene(Path root, String name, Map<String, String> cluster, Map<String, String> own) {
        this.directory = root.resolve(name);
        this.name = name;
        try {
            Files.createDirectories(directory);
            Path key = directory.resolve("audit.key");
            signer = NoteSigner.loadOrCreate(key, "millrace.test", new SecureRandom());
            settings.putAll(cluster);
            settings.putAll(Map.of(
                    "application.id", name, "engine.model", "glm-tiny", "engine.threads", "1", "engine.kv.bytes", "8000000",
                    "health.port", "-1", "topics.partitions", "6", "audit.origin", "millrace.test", "audit.key.file", key.toString(),
                    "inflight.max", "16"));
            settings.putAll(OwnTopics.of(name));
            settings.putAll(own);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    ServiceConfig config() {
        return ServiceConfig.of(settings);
    }

    /// With the topics that the service would create.
    DrillScene withTopics() {
        try (Admin admin = new KafkaClients(config()).admin()) {
            new Topics(config()).ensure(admin);
        }
        return this;
    }

    Path stateOf(String instance) {
        return directory.resolve(instance).resolve("state");
    }

    ServiceProcess start(String instance, String... jvmFlags) {
        return start(instance, Map.of(), jvmFlags);
    }

    /// Starts an instance, or starts it again.
    ServiceProcess start(String instance, Map<String, String> own, String... jvmFlags) {
        return start(instance, own, Map.of(), jvmFlags);
    }

    /// @param environment variables of the process beside those of this one
    ServiceProcess start(String instance, Map<String, String> own, Map<String, String> environment, String... jvmFlags) {
        Map<String, String> all = new HashMap<>(settings);
        all.put("state.dir", stateOf(instance).toString());
        all.putAll(own);
        try {
            ServiceProcess process =
                    ServiceProcess.start(Files.createDirectories(directory.resolve(instance)), all, environment, jvmFlags);
            instances.put(instance, process);
            return process;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    ServiceProcess instance(String instance) {
        return instances.get(instance);
    }

    /// Until every instance has said in this life that it is ready.
    void awaitReady() {
        instances.values().forEach(process -> process.await("ready", Duration.ofMinutes(6)));
    }

    void awaitReadyOf(String instance) {
        instances.get(instance).await("ready", Duration.ofMinutes(6));
    }

    DrillLoad load(DrillSettings load) {
        return DrillLoad.start(config(), load);
    }

    DrillLoad load(double perSecond) {
        return load(DrillSettings.of(name, perSecond));
    }

    /// Ends the load; nothing is lost or doubled, and the log verifies.
    DrillReport conclude(DrillLoad load) throws InterruptedException {
        DrillReport report = load.finish(PATIENCE);
        StringBuilder tails = new StringBuilder();
        instances.forEach((instance, process) -> tails.append(instance).append(":\n").append(process.tail()).append('\n'));
        LOG.info("drill {}: {}", name, report.json());
        assertThat(report.isWell()).as("%s%n%s", report.text(), tails).isTrue();
        assertThat(report.failed()).as(report.text()).isZero();
        // So that a checkpoint covers the last leaves.
        ClusterClient.sleep(2_500);
        try (ClusterClient client = new ClusterClient(config())) {
            AuditReport audit = client.audit(signer.verifier());
            assertThat(audit.word()).as("%s%n%s", audit.text(), tails).isEqualTo("ok");
            LOG.info("drill {}: audit ok, {} leaves", name, audit.leaves());
        }
        return report;
    }

    @Override
    public void close() {
        instances.values().forEach(ServiceProcess::close);
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import millrace.streams.drill.DrillLoad;
import millrace.streams.drill.DrillReport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The schema registry is away when an instance starts, and later while it serves under load.
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class RegistryOutageIT {
    private static final Logger LOG = LoggerFactory.getLogger(RegistryOutageIT.class);
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int LATER = 8;
    private static final int NO_SCHEMA = 987_654;

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static DrillScene scene(String name) {
        return new DrillScene(directory, name, cluster.serviceConfig(), Map.of("topics.partitions", "2")).withTopics();
    }

    @Test
    void aStartWithoutItEndsWithACodeAndTheNextOneAnswersWhatHasWaited() throws Exception {
        try (DrillScene scene = scene("registry-start"); RegistryOutage registry = new RegistryOutage(cluster.registryUrl())) {
            Map<String, String> own = Map.of("schema.registry.url", registry.url());
            registry.down();
            try (DrillLoad load = scene.load(10)) {
                endsWithoutItsRegistry(scene.start("one", own), registry);
                registry.up();
                scene.start("one", own).await("ready", PATIENCE);
                await("an answer", () -> load.answered() > 0);
                scene.conclude(load);
                assertThat(scene.instance("one").stop()).isZero();
            }
        }
    }

    private static void endsWithoutItsRegistry(ServiceProcess service, RegistryOutage registry) {
        assertThat(service.exitCode()).as(service.tail()).isEqualTo(1);
        assertThat(service.said()).as("which registry, and what to do").contains(registry.url()).contains("is it running")
                .doesNotContain("\tat ");
    }

    @Test
    void underLoadKnownSchemasGoOnAndNewOnesWaitForIt() throws Exception {
        try (DrillScene scene = scene("registry-later"); RegistryOutage registry = new RegistryOutage(cluster.registryUrl())) {
            Map<String, String> own = Map.of("schema.registry.url", registry.url(), "schema.registry.max.retries", "0");
            scene.start("one", own);
            scene.start("two", own);
            scene.awaitReady();
            try (DrillLoad load = scene.load(10); ClusterClient client = new ClusterClient(scene.config())) {
                await("an answer", () -> load.answered() > 0);
                registry.down();
                long downAt = System.nanoTime();
                List<String> later = IntStream.range(0, LATER).mapToObj(i -> "later-" + i).toList();
                for (String id : later) {
                    client.sendRaw(id.getBytes(StandardCharsets.UTF_8), LaterRelease.prompt(client, "registry-later.future", id),
                            new RecordHeaders());
                }
                client.sendRaw(null, LaterRelease.named(NO_SCHEMA), new RecordHeaders());
                endsWithoutItsRegistry(scene.start("three", own), registry);
                int answered = load.answered();
                await("answers while it is away", () -> load.answered() > answered + 50);
                assertThat(later).as("their schema cannot be asked for").allMatch(id -> client.answer(id) == null);
                assertThat(client.readAll("topics.dlq")).isEmpty();
                registry.up();
                long upAt = System.nanoTime();
                later.forEach(id -> client.await(id, PATIENCE));
                await("the dead letter of the record without a schema", () -> !client.readAll("topics.dlq").isEmpty());
                LOG.info("registry away for {} s; what had waited was answered {} ms after it was back", (upAt - downAt) / 1_000_000_000,
                        (System.nanoTime() - upAt) / 1_000_000);
                DrillReport report = scene.conclude(load);
                assertThat(client.readAll("topics.dlq")).extracting(ConsumerRecord::value).containsExactly(LaterRelease.named(NO_SCHEMA));
                assertThat(client.readAll("topics.completions")).as("each once").hasSize(report.prompts() + LATER);
            }
        }
    }

    private static void await(String what, BooleanSupplier seen) {
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (!seen.getAsBoolean()) {
            assertThat(System.nanoTime()).as("waited for %s", what).isLessThan(until);
            ClusterClient.sleep(50);
        }
    }
}

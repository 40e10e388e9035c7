package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.streams.drill.DrillLoad;
import millrace.streams.drill.DrillReport;
import millrace.streams.drill.DrillSettings;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The faults that clusters have, under load and in full length: minutes each, so only with `-Pdrills`. Docs/operations.md
/// has what they reached.
@EnabledIfSystemProperty(named = "millrace.drills", matches = "all|true")
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class DrillsIT {
    /// Stays: the instances' logs are the story of a drill.
    @TempDir(cleanup = CleanupMode.NEVER)
    private static Path directory;

    private static final Logger LOG = LoggerFactory.getLogger(DrillsIT.class);

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static DrillScene scene(String name, Map<String, String> own) {
        return new DrillScene(directory, name, cluster.serviceConfig(), own).withTopics();
    }

    private static void three(DrillScene scene) {
        scene.start("one");
        scene.start("two");
        scene.start("three");
        scene.awaitReady();
    }

    @Test
    void aKilledInstanceThatIsStartedAgain() throws Exception {
        try (DrillScene scene = scene("kill-restart", Map.of())) {
            three(scene);
            try (DrillLoad load = scene.load(6)) {
                ClusterClient.sleep(15_000);
                scene.instance("two").kill();
                scene.start("two");
                ClusterClient.sleep(25_000);
                scene.conclude(load);
            }
        }
    }

    @Test
    void aKilledInstanceThatDoesNotComeBack() throws Exception {
        try (DrillScene scene = scene("kill-gone", Map.of())) {
            three(scene);
            try (DrillLoad load = scene.load(6)) {
                ClusterClient.sleep(15_000);
                scene.instance("two").kill();
                ClusterClient.sleep(70_000);
                DrillReport report = scene.conclude(load);
                assertThat(report.longestGapMs()).isLessThan(75_000);
            }
        }
    }

    @Test
    void aZombieOfSixtySeconds() throws Exception {
        try (DrillScene scene = scene("zombie", Map.of())) {
            three(scene);
            try (DrillLoad load = scene.load(6)) {
                ClusterClient.sleep(10_000);
                scene.instance("one").signal("STOP");
                ClusterClient.sleep(60_000);
                scene.instance("one").signal("CONT");
                ClusterClient.sleep(20_000);
                scene.conclude(load);
                assertThat(scene.instance("one").isAlive()).isTrue();
            }
        }
    }

    @Test
    void aRollingRestart() throws Exception {
        try (DrillScene scene = scene("rolling", Map.of())) {
            three(scene);
            try (DrillLoad load = scene.load(6)) {
                for (String name : new String[] {"one", "two", "three"}) {
                    ClusterClient.sleep(8_000);
                    assertThat(scene.instance(name).stop()).isZero();
                    scene.start(name).await("ready", Duration.ofMinutes(6));
                }
                ClusterClient.sleep(8_000);
                scene.conclude(load);
            }
        }
    }

    @Test
    void aRebalanceStorm() throws Exception {
        try (DrillScene scene = scene("storm", Map.of())) {
            scene.start("one");
            scene.awaitReady();
            try (DrillLoad load = scene.load(4)) {
                for (int round = 0; round < 8; round++) {
                    scene.start("two");
                    scene.start("three");
                    ClusterClient.sleep(7_000);
                    scene.instance("two").stop();
                    scene.instance("three").kill();
                }
                scene.start("three");
                scene.awaitReadyOf("three");
                ClusterClient.sleep(5_000);
                scene.conclude(load);
            }
        }
    }

    @Test
    void poisonInEveryTenthRecord() throws Exception {
        try (DrillScene scene = scene("poison", Map.of())) {
            scene.start("one");
            scene.start("two");
            scene.awaitReady();
            try (DrillLoad load = scene.load(DrillSettings.of("poison", 20).withPoisonEvery(10))) {
                ClusterClient.sleep(20_000);
                DrillReport report = scene.conclude(load);
                assertThat(report.poison()).isGreaterThan(30);
            }
        }
    }

    /// The broker lets the service's producer write so slowly that leaves, and with them the transactions that they are in, cannot
    /// keep pace with the prompts.
    @Test
    void aSlowAuditTopic() throws Exception {
        String checkpointLag = "millrace_audit_checkpoint_lag_seconds";
        Map<String, String> named = Map.of("kafka.client.id", "drill-slow", "health.port", "0");
        try (DrillScene scene = scene("slow-audit", Map.of("topics.partitions", "2"));
                Admin admin = new KafkaClients(scene.config()).admin()) {
            ServiceProcess service = scene.start("one", named);
            scene.awaitReady();
            try (DrillLoad load = scene.load(8)) {
                ClusterClient.sleep(10_000);
                int before = load.answered();
                throttle(admin, 12_000.0);
                double lag = 0;
                // It goes up and down with each commit.
                for (int look = 0; look < 200; look++) {
                    ClusterClient.sleep(200);
                    lag = Math.max(lag, service.metric(checkpointLag));
                }
                int during = load.answered() - before;
                int behind = load.sent() - load.answered();
                throttle(admin, null);
                long freedAt = System.nanoTime();
                while (load.sent() - load.answered() > 16 || service.metric(checkpointLag) > 2) {
                    assertThat(System.nanoTime() - freedAt).as("back to normal; %d behind", load.sent() - load.answered())
                            .isLessThan(Duration.ofSeconds(90).toNanos());
                    ClusterClient.sleep(200);
                }
                LOG.info("drill slow-audit: {} answers in 40 s under the quota, {} behind at its end, checkpoint lag up to {} s;"
                        + " caught up {} ms after", during, behind, lag, (System.nanoTime() - freedAt) / 1_000_000);
                assertThat(behind).as("the quota holds the service back").isGreaterThan(40);
                assertThat(lag).as("who watches sees it: twice audit.checkpoint.interval.ms at least").isGreaterThan(1);
                scene.conclude(load);
                assertThat(service.isAlive()).isTrue();
            }
        }
    }

    /// @param bytesPerSecond null for no limit
    private static void throttle(Admin admin, @Nullable Double bytesPerSecond) throws Exception {
        ClientQuotaEntity producer = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "drill-slow-StreamThread-1-producer"));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                producer, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", bytesPerSecond))))).all().get();
    }
}

package millrace.streams;

import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.streams.drill.DrillLoad;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/// Brokers that die and come back under two instances with load, on three brokers in three processes; only with `-Pdrills`.
@EnabledIfSystemProperty(named = "millrace.drills", matches = "all|true")
@Timeout(value = 15, unit = TimeUnit.MINUTES)
class BrokerDrillsIT {
    /// Longer than a producer tries to deliver, by default.
    private static final int AWAY_SECONDS = Integer.getInteger("millrace.drills.away", 150);

    /// Stays: the brokers' and the instances' logs are the story of a drill.
    @TempDir(cleanup = CleanupMode.NEVER)
    private static Path directory;

    private static DrillCluster cluster;

    @BeforeAll
    static void start() {
        cluster = new DrillCluster(directory.resolve("brokers"));
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    private static DrillScene scene(String name) {
        DrillScene scene = new DrillScene(directory, name, cluster.serviceConfig(), Map.of());
        try {
            scene.withTopics();
            scene.start("one");
            scene.start("two");
            scene.awaitReady();
            return scene;
        } catch (RuntimeException e) {
            // Nobody has it yet who could close it.
            scene.close();
            throw e;
        }
    }

    @Test
    void eachBrokerIsLostAndComesBack() throws Exception {
        try (DrillScene scene = scene("broker"); DrillLoad load = scene.load(4)) {
            for (int node = 1; node <= 3; node++) {
                ClusterClient.sleep(8_000);
                cluster.kill(node);
                ClusterClient.sleep(15_000);
                cluster.start(node);
                cluster.awaitInSync(3);
            }
            ClusterClient.sleep(8_000);
            scene.conclude(load);
        }
    }

    @Test
    void allBrokersAreAway() throws Exception {
        try (DrillScene scene = scene("away"); DrillLoad load = scene.load(4)) {
            ClusterClient.sleep(10_000);
            cluster.killAll();
            ClusterClient.sleep(AWAY_SECONDS * 1_000L);
            cluster.startAll();
            cluster.awaitInSync(3);
            ClusterClient.sleep(30_000);
            scene.conclude(load);
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import millrace.streams.drill.DrillLoad;
import millrace.streams.drill.DrillReport;
import millrace.streams.drill.DrillSettings;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// What a standby replica brings when an instance is killed for good: the time that its partitions stand still, by how many
/// request ids the stores remember; only with `-Pdrills`.
@EnabledIfSystemProperty(named = "millrace.drills", matches = "all|true")
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class StandbyDrillsIT {
    private static final Logger LOG = LoggerFactory.getLogger(StandbyDrillsIT.class);
    private static final int PARTITIONS = 2;
    /// Shorter than the default, so that what is behind it can be seen.
    private static final int SESSION_MS = 10_000;

    /// Stays: the instances' logs are the story of a drill.
    @TempDir(cleanup = CleanupMode.NEVER)
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    @ParameterizedTest
    @CsvSource({"0, 0", "1, 0", "0, 1000000", "1, 1000000"})
    void aKilledInstanceWithIdsToRemember(int standbys, int ids) throws Exception {
        String name = "standby-" + standbys + "-of-" + ids;
        Map<String, String> own = Map.of("topics.partitions", Integer.toString(PARTITIONS), GroupProtocol.STANDBYS,
                Integer.toString(standbys), "kafka.main.consumer.session.timeout.ms", Integer.toString(SESSION_MS),
                "kafka.main.consumer.heartbeat.interval.ms", "1000", "kafka.probing.rebalance.interval.ms", "60000");
        try (DrillScene scene = new DrillScene(directory, name, cluster.serviceConfig(), own).withTopics()) {
            scene.start("one");
            scene.awaitReady();
            assertThat(scene.instance("one").stop()).isZero();
            remember(scene.config(), ids);
            scene.start("one");
            scene.start("two");
            scene.awaitReady();
            spread(scene, name);
            try (DrillLoad load = scene.load(10)) {
                ClusterClient.sleep(5_000);
                scene.instance("two").kill();
                ClusterClient.sleep(SESSION_MS + 15_000);
                DrillReport report = scene.conclude(load);
                LOG.info("drill {}: longest stand-still {} ms, of which {} ms are the session", name, report.longestGapMs(), SESSION_MS);
            }
        }
    }

    /// Until both have work: an instance with much to restore gets its partitions when it has, at a look once a minute here. With a
    /// load of its own, so that what is measured later is the kill alone.
    private static void spread(DrillScene scene, String name) throws InterruptedException {
        try (DrillLoad load = scene.load(DrillSettings.of(name + "-first", 10))) {
            long until = System.nanoTime() + Duration.ofMinutes(5).toNanos();
            while (load.soFar().leavesByInstance().size() < 2) {
                assertThat(System.nanoTime()).as("both have work").isLessThan(until);
                ClusterClient.sleep(500);
            }
            assertThat(load.finish(Duration.ofMinutes(2)).isWell()).isTrue();
        }
        // Until a second copy has been made of what has moved.
        ClusterClient.sleep(10_000);
    }

    /// Request ids that were answered within the last hour, as an instance with much to do has them in its store `seen`: written
    /// to its changelog while nobody serves.
    private static void remember(ServiceConfig config, int ids) {
        String changelog = config.string("application.id") + "-" + InferenceProcessor.SEEN_STORE + "-changelog";
        SplittableRandom random = new SplittableRandom(7);
        long now = System.currentTimeMillis() - 60_000;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaClients(config).producer()) {
            for (int i = 0; i < ids; i++) {
                byte[] digest = new byte[32];
                random.nextBytes(digest);
                // A key of a window store: the request's name, the time, and a number that this store does not use.
                byte[] key = ByteBuffer.allocate(28).putLong(random.nextLong()).putLong(i).putLong(now).putInt(0).array();
                producer.send(new ProducerRecord<>(changelog, i % PARTITIONS, now, key, digest));
            }
            producer.flush();
        }
    }
}

package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.schemas.AttestationRecord;
import millrace.streams.drill.DrillLoad;
import millrace.streams.registry.AvroDecoder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The wall clock of an instance is set forward and back under load; only with `-Pdrills`, and where libfaketime is installed.
@EnabledIfSystemProperty(named = "millrace.drills", matches = "all|true")
@EnabledIf(value = "millrace.streams.FakeClock#isInstalled", disabledReason = "libfaketime is not installed (Debian: apt install faketime)")
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class ClockDrillsIT {
    private static final Logger LOG = LoggerFactory.getLogger(ClockDrillsIT.class);

    private static final Duration SESSION = Duration.ofSeconds(60);

    /// Stays: the instances' logs are the story of a drill.
    @TempDir(cleanup = CleanupMode.NEVER)
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    @Test
    void forwardAndBack() throws Exception {
        try (DrillScene scene = new DrillScene(directory, "clock", cluster.serviceConfig(), Map.of("topics.partitions", "2")).withTopics()) {
            FakeClock clock = new FakeClock(directory.resolve("clock").resolve("offset"));
            ServiceProcess service = scene.start("one", Map.of(), clock.environment());
            scene.awaitReady();
            try (DrillLoad load = scene.load(6)) {
                awaitMoreThan(0, load, "it serves");
                set(clock, Duration.ofMinutes(50), 12, load);
                set(clock, Duration.ZERO, 8, load);
                // Longer than a session of the group: heartbeats go on.
                set(clock, Duration.ofHours(-26), 75, load);
                set(clock, Duration.ofSeconds(3), 5, load);
                set(clock, Duration.ZERO, 5, load);
                scene.conclude(load);
                assertThat(service.isAlive()).isTrue();
            }
            assertThat(timesWentBack(scene)).as("the clock was really set: times of leaves run backwards somewhere").isTrue();
        }
    }

    /// Sets the clock, and sees that prompts are answered all the while.
    private static void set(FakeClock clock, Duration ahead, int seconds, DrillLoad load) {
        clock.set(ahead);
        ClusterClient.sleep(2_000);
        int before = load.answered();
        ClusterClient.sleep(seconds * 1_000L);
        // Its timers may have run out all at once: then it joins the group anew, which a session bounds.
        awaitMoreThan(before, load, "it goes on answering with its clock " + ahead + " ahead");
        LOG.info("drill clock: {} ahead, {} answers in {} s", ahead, load.answered() - before, seconds);
    }

    private static void awaitMoreThan(int answers, DrillLoad load, String what) {
        long until = System.nanoTime() + SESSION.toNanos();
        while (load.answered() <= answers) {
            assertThat(System.nanoTime()).as(what).isLessThan(until);
            ClusterClient.sleep(100);
        }
    }

    private static boolean timesWentBack(DrillScene scene) {
        try (ClusterClient client = new ClusterClient(scene.config())) {
            AvroDecoder<AttestationRecord> leaves = new AvroDecoder<>(client.registry(), AttestationRecord.class);
            long latest = 0;
            boolean back = false;
            for (var record : client.readAll("topics.audit")) {
                long time = leaves.decode(record.value()).getTimeMs();
                back |= time < latest - Duration.ofHours(1).toMillis();
                latest = Math.max(latest, time);
            }
            return back;
        }
    }
}

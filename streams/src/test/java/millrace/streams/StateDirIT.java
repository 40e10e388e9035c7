package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import millrace.integrity.NoteVerifier;
import millrace.schemas.Prompt;
import millrace.streams.bench.NoOpEngine;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

/// The directory of the stores is damaged, deleted or full: no prompt is lost for it, and none is answered twice.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
@SuppressWarnings("try") // instances serve while their block is open
class StateDirIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int PART = 20;

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "1",
                "health.port", "-1", "audit.key.file", directory.resolve(name + ".key").toString()));
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    private static void send(ClusterClient client, List<String> sent, int bytes) {
        for (int i = 0; i < PART; i++) {
            String id = "prompt-" + sent.size();
            client.send(Prompt.newBuilder().setRequestId(id).setPrompt(id + " ".repeat(bytes)).build());
            sent.add(id);
        }
    }

    private static void awaitAll(ClusterClient client, List<String> sent) {
        sent.forEach(id -> client.await(id, PATIENCE));
    }

    private static void conclude(ClusterClient client, List<String> sent, ServiceInstance service) {
        client.assertExactlyOnce(sent);
        ClusterClient.sleep(1_500);
        assertThat(client.audit(NoteVerifier.parse(service.service().vkey())).word()).isEqualTo("ok");
    }

    @Test
    void storesThatWereDamagedWhileItWasDownAreRestored() throws Exception {
        ServiceConfig config = config("damaged");
        List<String> sent = new ArrayList<>();
        try (ServiceInstance first = ServiceInstance.start(config, new NoOpEngine()); ClusterClient client = new ClusterClient(config)) {
            send(client, sent, 10);
            awaitAll(client, sent);
        }
        assertThat(damage(directory.resolve("damaged").resolve("damaged"))).as("files that were damaged").isPositive();
        try (ServiceInstance second = ServiceInstance.start(config, new NoOpEngine()); ClusterClient client = new ClusterClient(config)) {
            send(client, sent, 10);
            awaitAll(client, sent);
            conclude(client, sent, second);
        }
    }

    /// Writes over every table and manifest of every store; returns how many.
    private static int damage(Path stores) throws IOException {
        int count = 0;
        try (Stream<Path> all = Files.walk(stores)) {
            for (Path file : all.filter(Files::isRegularFile).toList()) {
                String name = file.getFileName().toString();
                if (name.endsWith(".sst") || name.startsWith("MANIFEST")) {
                    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                        channel.write(ByteBuffer.allocate((int) Files.size(file)));
                    }
                    count++;
                }
            }
        }
        return count;
    }

    @Test
    void storesThatAreDeletedWhileItServesCostNothing() throws Exception {
        ServiceConfig config = config("deleted");
        List<String> sent = new ArrayList<>();
        try (ServiceInstance first = ServiceInstance.start(config, new NoOpEngine()); ClusterClient client = new ClusterClient(config)) {
            send(client, sent, 10);
            awaitAll(client, sent);
            deleteTree(directory.resolve("deleted").resolve("deleted"));
            // More than the stores' buffers hold, so that they must write.
            send(client, sent, 400_000);
            awaitAll(client, sent);
        }
        try (ServiceInstance second = ServiceInstance.start(config, new NoOpEngine()); ClusterClient client = new ClusterClient(config)) {
            send(client, sent, 10);
            awaitAll(client, sent);
            conclude(client, sent, second);
        }
    }

    private static void deleteTree(Path tree) throws IOException {
        try (Stream<Path> all = Files.walk(tree)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }

    @Test
    void aFullDeviceStopsTheServiceAndTheNextStartGoesOn() throws Exception {
        Path state = Files.createDirectories(directory.resolve("full"));
        Assumptions.assumeTrue(run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", state.toString()), "needs the right to mount");
        try {
            ServiceConfig config = config("full");
            List<String> sent = new ArrayList<>();
            try (ServiceInstance first = ServiceInstance.start(config, new NoOpEngine());
                    ClusterClient client = new ClusterClient(config)) {
                send(client, sent, 10);
                awaitAll(client, sent);
                fill(state.resolve("filler"));
                for (int part = 0; part < 4 && !first.end().isDone(); part++) {
                    send(client, sent, 400_000);
                }
                assertThat(first.end().get(90, TimeUnit.SECONDS)).hasMessageContaining("STATE_DIR_FULL").hasMessageContaining(state.toString());
            }
            Files.delete(state.resolve("filler"));
            try (ServiceInstance second = ServiceInstance.start(config, new NoOpEngine());
                    ClusterClient client = new ClusterClient(config)) {
                awaitAll(client, sent);
                conclude(client, sent, second);
            }
        } finally {
            run("umount", "-l", state.toString());
        }
    }

    private static void fill(Path file) throws IOException {
        try (OutputStream out = Files.newOutputStream(file)) {
            while (true) {
                out.write(new byte[4096]);
            }
        } catch (IOException e) {
            assertThat(e).hasMessageContaining("No space left");
        }
    }

    private static boolean run(String... command) throws IOException, InterruptedException {
        try {
            return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor() == 0;
        } catch (IOException e) {
            return false;
        }
    }
}

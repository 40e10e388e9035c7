package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import millrace.streams.embedded.EmbeddedRegistry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.common.Uuid;

/// Three brokers in three JVMs, three replicas of everything, two of which must be in sync, and a registry in this process.
final class DrillCluster implements AutoCloseable {
    private static final int NODES = 3;

    private final Path directory;
    private final String id = Uuid.randomUuid().toString();
    private final List<String> ports = new ArrayList<>();
    private final Map<Integer, Process> running = new HashMap<>();
    private final EmbeddedRegistry registry;

    DrillCluster(Path directory) {
        this.directory = directory;
        for (int node = 1; node <= NODES; node++) {
            ports.add(freePort() + ":" + freePort());
        }
        startAll();
        awaitBrokers(NODES);
        registry = EmbeddedRegistry.inMemory("127.0.0.1", 0);
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    String bootstrap() {
        return String.join(",", ports.stream().map(pair -> "127.0.0.1:" + pair.split(":")[0]).toList());
    }

    Map<String, String> serviceConfig() {
        return Map.of("kafka.bootstrap.servers", bootstrap(), "schema.registry.url", registry.url(), "topics.replication.factor", "3");
    }

    void startAll() {
        for (int node = 1; node <= NODES; node++) {
            start(node);
        }
    }

    void start(int node) {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
                "-cp", System.getProperty("java.class.path"), DrillNode.class.getName(), Integer.toString(node),
                directory.resolve("node" + node).toString(), id));
        command.addAll(ports);
        try {
            Files.createDirectories(directory);
            running.put(node, new ProcessBuilder(command).redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.appendTo(directory.resolve("node" + node + ".log").toFile())).start());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// SIGKILL.
    void kill(int node) {
        try {
            running.remove(node).destroyForcibly().waitFor(20, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    void killAll() {
        List.copyOf(running.keySet()).forEach(this::kill);
    }

    /// Until so many brokers are in the cluster.
    void awaitBrokers(int count) {
        long until = System.nanoTime() + Duration.ofMinutes(8).toNanos();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap()))) {
            while (System.nanoTime() < until) {
                try {
                    if (admin.describeCluster().nodes().get(5, TimeUnit.SECONDS).size() >= count) {
                        return;
                    }
                } catch (ExecutionException | java.util.concurrent.TimeoutException e) {
                    // Not yet.
                }
                ClusterClient.sleep(200);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new IllegalStateException("expected " + count + " brokers within 8 minutes; their logs are in " + directory);
    }

    /// Until every partition has so many replicas in sync: only then another broker may be lost.
    void awaitInSync(int replicas) {
        awaitBrokers(replicas);
        long until = System.nanoTime() + Duration.ofMinutes(8).toNanos();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap()))) {
            while (System.nanoTime() < until) {
                try {
                    if (admin.describeTopics(admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get()).allTopicNames().get()
                            .values().stream().flatMap(topic -> topic.partitions().stream())
                            .allMatch(partition -> partition.isr().size() >= replicas)) {
                        return;
                    }
                } catch (ExecutionException e) {
                    // Not yet.
                }
                ClusterClient.sleep(500);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new IllegalStateException("expected " + replicas + " replicas in sync within 8 minutes; the brokers' logs are in " + directory);
    }

    @Override
    public void close() {
        killAll();
        registry.close();
    }
}

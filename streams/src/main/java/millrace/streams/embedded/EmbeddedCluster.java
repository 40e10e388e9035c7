package millrace.streams.embedded;

import java.nio.file.Path;
import java.util.Map;

/// A broker and a schema registry in this process: all that a service needs besides itself.
public final class EmbeddedCluster implements AutoCloseable {
    private final EmbeddedBroker broker;
    private final EmbeddedRegistry registry;

    private EmbeddedCluster(EmbeddedBroker broker, EmbeddedRegistry registry) {
        this.broker = broker;
        this.registry = registry;
    }

    /// With data that outlive the process.
    public static EmbeddedCluster start(Path directory, String host, int brokerPort, int registryPort) {
        return withRegistry(EmbeddedBroker.start(directory, host, brokerPort), host, registryPort);
    }

    /// With data that go when it is closed, on free ports.
    public static EmbeddedCluster ephemeral() {
        String host = "127.0.0.1";
        return withRegistry(EmbeddedBroker.ephemeral(host, 0), host, 0);
    }

    private static EmbeddedCluster withRegistry(EmbeddedBroker broker, String host, int port) {
        try {
            return new EmbeddedCluster(broker, EmbeddedRegistry.start(broker.bootstrap(), host, port));
        } catch (RuntimeException e) {
            broker.close();
            throw e;
        }
    }

    public String bootstrap() {
        return broker.bootstrap();
    }

    public String registryUrl() {
        return registry.url();
    }

    /// The keys that a service on this cluster is configured with. One broker can hold one replica, and it is this
    /// process's own: the audit topic is as safe as the disk.
    public Map<String, String> serviceConfig() {
        return Map.of(
                "kafka.bootstrap.servers", bootstrap(),
                "schema.registry.url", registryUrl(),
                "topics.replication.factor", "1",
                "engine.threads", Integer.toString(engineThreads()),
                "audit.single.node", "true");
    }

    /// Compute threads of an engine beside this cluster. One core is left to the broker: an engine that shares all of
    /// them with it waits for threads that have lost theirs.
    public static int engineThreads() {
        return Math.max(1, Runtime.getRuntime().availableProcessors() - 1);
    }

    @Override
    public void close() {
        registry.close();
        broker.close();
    }
}

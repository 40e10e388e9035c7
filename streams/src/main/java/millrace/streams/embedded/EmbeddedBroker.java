package millrace.streams.embedded;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// A single-node Kafka cluster (KRaft, broker and controller in one) inside this process, on a real TCP port.
///
/// [#start] keeps its data in the directory and finds them again at the next start, whatever ended the last one;
/// [#ephemeral] works in a temporary directory that [#close] deletes. Topics are not created by use.
///
/// A fatal fault of Kafka's server halts the whole process (Kafka's own rule); it is logged first.
public final class EmbeddedBroker implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(EmbeddedBroker.class);
    private static final int NODE_ID = 1;
    private static final int START_ATTEMPTS = 3;

    private final KafkaRaftServer server;
    private final FileChannel lock;
    private final Address address;
    private final Path directory;
    private final boolean ephemeral;
    private boolean closed;

    /// Where to listen, and what to tell clients; port 0 stands for a free one.
    private record Address(String host, String advertisedHost, int port, String protocol, Map<String, String> settings) {
        Address withPort(int port) {
            return new Address(host, advertisedHost, port, protocol, settings);
        }

        static String of(String host, int port) {
            return host.indexOf(':') >= 0 ? "[" + host + "]:" + port : host + ":" + port;
        }
    }

    private EmbeddedBroker(
            KafkaRaftServer server, FileChannel lock, Address address, Path directory, boolean ephemeral) {
        this.server = server;
        this.lock = lock;
        this.address = address;
        this.directory = directory;
        this.ephemeral = ephemeral;
    }

    /// Starts a broker whose data live in `directory`, which is created when missing. `host` is bound and advertised;
    /// port 0 takes a free one. Returns when clients can connect.
    public static EmbeddedBroker start(Path directory, String host, int port) {
        return start(directory, host, port, host);
    }

    /// Like [#start], where clients reach the broker by another name than the address it is bound to:
    /// `host` may be `0.0.0.0`, `advertisedHost` may not.
    public static EmbeddedBroker start(Path directory, String host, int port, String advertisedHost) {
        return open(directory, new Address(host, advertisedHost, port, "PLAINTEXT", Map.of()), false);
    }

    /// Starts a broker in a new temporary directory, deleted on [#close].
    public static EmbeddedBroker ephemeral(String host, int port) {
        return ephemeral(host, port, "PLAINTEXT", Map.of());
    }

    /// The same with another protocol for clients, such as `SASL_SSL`, and what the broker needs for it.
    static EmbeddedBroker ephemeral(String host, int port, String protocol, Map<String, String> settings) {
        try {
            return open(Files.createTempDirectory("millrace-broker-"), new Address(host, host, port, protocol, settings), true);
        } catch (IOException e) {
            String message = "embedded broker: cannot create a temporary directory in %s: %s; "
                    + "set java.io.tmpdir to a folder that can be written";
            throw new EmbeddedException("EMBEDDED_DIR", message.formatted(System.getProperty("java.io.tmpdir"), e), e);
        }
    }

    /// Address for clients, `host:port`.
    public String bootstrap() {
        return Address.of(address.advertisedHost, address.port);
    }

    public int port() {
        return address.port;
    }

    public Path directory() {
        return directory;
    }

    /// Stops the broker, waits until it is down, and deletes an ephemeral directory.
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        try {
            server.shutdown();
            server.awaitShutdown();
        } finally {
            release(lock);
            if (ephemeral) {
                deleteTree(directory);
            }
        }
    }

    private static EmbeddedBroker open(Path directory, Address address, boolean ephemeral) {
        Path root = directory.toAbsolutePath().normalize();
        FileChannel lock = null;
        boolean started = false;
        try {
            if (address.advertisedHost.equals("0.0.0.0") || address.advertisedHost.equals("::")) {
                String message = "embedded broker: expected an advertised host that clients can connect to, got \"%s\";"
                        + " name this machine as clients know it";
                throw new EmbeddedException("EMBEDDED_START", message.formatted(address.advertisedHost));
            }
            lock = lock(root);
            if (address.port != 0) {
                requireFree(address.host, address.port);
            }
            logBeforeHalt();
            EmbeddedBroker broker = startOnFreePorts(root, lock, address, ephemeral);
            started = true;
            return broker;
        } finally {
            if (!started) {
                if (lock != null) {
                    release(lock);
                }
                if (ephemeral) {
                    deleteTree(root);
                }
            }
        }
    }

    /* Kafka must know its ports before it starts, so a free one is looked up and bound a moment later; another process
     * may take it in between. That is tried again with other ports; a port that was asked for is not. */
    private static EmbeddedBroker startOnFreePorts(
            Path root, FileChannel lock, Address wanted, boolean ephemeral) {
        Path data = root.resolve("kafka");
        for (int attempt = 1; ; attempt++) {
            Address address = wanted.port != 0 ? wanted : wanted.withPort(freePort(wanted.host));
            KafkaRaftServer server = null;
            try {
                Properties settings = settings(data, address, freePort("127.0.0.1"));
                format(data);
                server = new KafkaRaftServer(new KafkaConfig(settings), Time.SYSTEM);
                server.startup();
                return new EmbeddedBroker(server, lock, address, root, ephemeral);
            } catch (Exception e) {
                if (server != null) {
                    stopHalfStarted(server);
                }
                boolean portTaken = hasCause(e, BindException.class);
                if (!portTaken || attempt == START_ATTEMPTS) {
                    if (portTaken && wanted.port != 0) {
                        throw portTaken(wanted.host, wanted.port, e);
                    }
                    String message = "embedded broker: cannot start in %s: %s; if the directory was written by a newer"
                            + " version, use that version or another directory";
                    throw new EmbeddedException("EMBEDDED_START", message.formatted(root, e), e);
                }
            }
        }
    }

    private static void stopHalfStarted(KafkaRaftServer server) {
        try {
            server.shutdown();
            server.awaitShutdown();
        } catch (RuntimeException e) {
            LOG.debug("embedded broker: stopping what had started failed", e);
        }
    }

    private static Properties settings(Path data, Address address, int controllerPort) {
        String bound = Address.of(address.host, address.port);
        Properties p = new Properties();
        p.put("process.roles", "broker,controller");
        p.put("node.id", String.valueOf(NODE_ID));
        p.put("controller.quorum.voters", NODE_ID + "@127.0.0.1:" + controllerPort);
        p.put("listeners", address.protocol + "://" + bound + ",CONTROLLER://127.0.0.1:" + controllerPort);
        p.put("advertised.listeners", address.protocol + "://" + Address.of(address.advertisedHost, address.port));
        p.put("controller.listener.names", "CONTROLLER");
        p.put("listener.security.protocol.map", address.protocol + ":" + address.protocol + ",CONTROLLER:PLAINTEXT");
        p.put("inter.broker.listener.name", address.protocol);
        p.put("log.dirs", data.toString());
        // One node holds the only replica.
        p.put("offsets.topic.replication.factor", "1");
        p.put("transaction.state.log.replication.factor", "1");
        p.put("transaction.state.log.min.isr", "1");
        p.put("share.coordinator.state.topic.replication.factor", "1");
        p.put("share.coordinator.state.topic.min.isr", "1");
        // The defaults of 50 are for clusters; every partition costs files and start-up time here.
        p.put("offsets.topic.num.partitions", "5");
        p.put("transaction.state.log.num.partitions", "5");
        p.put("share.coordinator.state.topic.num.partitions", "3");
        p.put("group.initial.rebalance.delay.ms", "0");
        p.put("auto.create.topics.enable", "false");
        p.put("num.network.threads", "1");
        p.put("num.io.threads", "2");
        p.put("num.replica.fetchers", "1");
        p.put("background.threads", "2");
        p.put("num.recovery.threads.per.data.dir", "1");
        p.put("log.cleaner.threads", "1");
        p.put("log.cleaner.dedupe.buffer.size", String.valueOf(4 << 20));
        // After a kill the controller refuses the new incarnation until the session of the old one has run out.
        p.put("broker.session.timeout.ms", "2000");
        p.put("broker.heartbeat.interval.ms", "500");
        // The first produce of a transaction retries while the previous one completes; 20-100 ms is far too patient.
        p.put("add.partitions.to.txn.retry.backoff.ms", "2");
        p.put("add.partitions.to.txn.retry.backoff.max.ms", "10");
        p.putAll(address.settings);
        return p;
    }

    /* Writes meta.properties and the first metadata records; on a directory that has them it changes nothing. */
    private static void format(Path data) throws Exception {
        Files.createDirectories(data);
        new Formatter()
                .setNodeId(NODE_ID)
                .setClusterId(clusterId(data))
                .addDirectory(data.toString())
                .setMetadataLogDirectory(data.toString())
                .setControllerListenerName("CONTROLLER")
                .setSupportedFeatures(Feature.PRODUCTION_FEATURES)
                .setReleaseVersion(MetadataVersion.LATEST_PRODUCTION)
                .setHasDynamicQuorum(false)
                .setIgnoreFormatted(true)
                .setPrintStream(new PrintStream(OutputStream.nullOutputStream()))
                .run();
    }

    private static String clusterId(Path data) throws IOException {
        Path meta = data.resolve("meta.properties");
        if (Files.exists(meta)) {
            Properties properties = new Properties();
            try (var reader = Files.newBufferedReader(meta)) {
                properties.load(reader);
            }
            String id = properties.getProperty("cluster.id");
            if (id != null) {
                return id;
            }
        }
        return Uuid.randomUuid().toString();
    }

    private static FileChannel lock(Path root) {
        FileChannel channel = null;
        boolean locked = false;
        try {
            Files.createDirectories(root);
            Path file = root.resolve("broker.lock");
            channel = FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            locked = channel.tryLock() != null;
        } catch (OverlappingFileLockException e) {
            locked = false; // held by this very process
        } catch (IOException e) {
            String message = "embedded broker: cannot use the directory %s: %s; name a folder that can be written";
            throw new EmbeddedException("EMBEDDED_DIR", message.formatted(root, e), e);
        } finally {
            if (!locked && channel != null) {
                release(channel);
            }
        }
        if (!locked) {
            String message = "embedded broker: the directory %s is in use by another broker; "
                    + "stop that one or name another directory";
            throw new EmbeddedException("EMBEDDED_DIR", message.formatted(root));
        }
        return channel;
    }

    private static void requireFree(String host, int port) {
        try (ServerSocket socket = new ServerSocket()) {
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(host, port));
        } catch (IOException e) {
            throw portTaken(host, port, e);
        }
    }

    private static EmbeddedException portTaken(String host, int port, Exception cause) {
        String message = "embedded broker: cannot listen on %s:%d: %s; "
                + "stop what uses the port, or take port 0 for a free one";
        return new EmbeddedException("EMBEDDED_PORT", message.formatted(host, port, cause.getMessage()), cause);
    }

    static int freePort(String host) {
        try (ServerSocket socket = new ServerSocket()) {
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(host, 0));
            return socket.getLocalPort();
        } catch (IOException e) {
            String message = "embedded broker: no free port on %s: %s; name an address of this machine";
            throw new EmbeddedException("EMBEDDED_PORT", message.formatted(host, e.getMessage()), e);
        }
    }

    /* JVM-wide, as Kafka's Exit is; setting it again changes nothing. */
    private static void logBeforeHalt() {
        Exit.setHaltProcedure((status, message) -> {
            LOG.error("embedded broker: fatal fault, the process halts with status {}: {}", status, message);
            Runtime.getRuntime().halt(status);
        });
        Exit.setExitProcedure((status, message) -> {
            LOG.error("embedded broker: fatal fault, the process exits with status {}: {}", status, message);
            Runtime.getRuntime().exit(status);
        });
    }

    private static boolean hasCause(Throwable e, Class<? extends Throwable> type) {
        for (@Nullable Throwable t = e; t != null; t = t.getCause()) {
            if (type.isInstance(t)) {
                return true;
            }
        }
        return false;
    }

    private static void release(FileChannel lock) {
        try {
            lock.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void deleteTree(Path root) {
        try {
            Files.walkFileTree(root, new SimpleFileVisitor<>() {
                @Override
                public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) throws IOException {
                    Files.deleteIfExists(file);
                    return FileVisitResult.CONTINUE;
                }

                @Override
                public FileVisitResult postVisitDirectory(Path folder, @Nullable IOException e) throws IOException {
                    Files.deleteIfExists(folder);
                    return FileVisitResult.CONTINUE;
                }
            });
        } catch (IOException e) {
            LOG.warn("embedded broker: could not delete the temporary directory {}: {}", root, e.toString());
        }
    }
}

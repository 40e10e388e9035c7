package millrace.streams;

import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

/// One of several brokers, each a combined node in a JVM of its own, which a drill may kill.
final class DrillNode {
    private DrillNode() {}

    /// @param arguments the node's number, its directory, the cluster's id, then `broker port:controller port` of every node
    public static void main(String[] arguments) throws Exception {
        int node = Integer.parseInt(arguments[0]);
        Path data = Files.createDirectories(Path.of(arguments[1]));
        String[] ports = new String[arguments.length - 3];
        System.arraycopy(arguments, 3, ports, 0, ports.length);
        new Formatter()
                .setNodeId(node)
                .setClusterId(arguments[2])
                .addDirectory(data.toString())
                .setMetadataLogDirectory(data.toString())
                .setControllerListenerName("CONTROLLER")
                .setSupportedFeatures(Feature.PRODUCTION_FEATURES)
                .setReleaseVersion(MetadataVersion.LATEST_PRODUCTION)
                .setHasDynamicQuorum(false)
                .setIgnoreFormatted(true)
                .setPrintStream(new PrintStream(OutputStream.nullOutputStream()))
                .run();
        KafkaRaftServer server = new KafkaRaftServer(new KafkaConfig(settings(node, data, ports)), Time.SYSTEM);
        server.startup();
        new CountDownLatch(1).await();
    }

    private static Properties settings(int node, Path data, String[] ports) {
        StringBuilder voters = new StringBuilder();
        for (int i = 0; i < ports.length; i++) {
            voters.append(i == 0 ? "" : ",").append(i + 1).append("@127.0.0.1:").append(ports[i].split(":")[1]);
        }
        String[] own = ports[node - 1].split(":");
        Properties p = new Properties();
        p.put("process.roles", "broker,controller");
        p.put("node.id", Integer.toString(node));
        p.put("controller.quorum.voters", voters.toString());
        p.put("listeners", "PLAINTEXT://127.0.0.1:" + own[0] + ",CONTROLLER://127.0.0.1:" + own[1]);
        p.put("advertised.listeners", "PLAINTEXT://127.0.0.1:" + own[0]);
        p.put("controller.listener.names", "CONTROLLER");
        p.put("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT");
        p.put("log.dirs", data.toString());
        p.put("default.replication.factor", "3");
        p.put("min.insync.replicas", "2");
        for (String topic : new String[] {"offsets.topic", "transaction.state.log"}) {
            p.put(topic + ".replication.factor", "3");
            p.put(topic + ".num.partitions", "5");
        }
        p.put("transaction.state.log.min.isr", "2");
        p.put("share.coordinator.state.topic.num.partitions", "3");
        p.put("group.initial.rebalance.delay.ms", "0");
        p.put("auto.create.topics.enable", "false");
        p.put("num.network.threads", "1");
        p.put("num.io.threads", "2");
        p.put("background.threads", "2");
        p.put("log.cleaner.threads", "1");
        p.put("log.cleaner.dedupe.buffer.size", String.valueOf(4 << 20));
        return p;
    }
}

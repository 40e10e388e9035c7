package millrace.streams.embedded;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.internals.Exit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EmbeddedBrokerIT {
    private static final String HOST = "127.0.0.1";

    @TempDir
    private Path temp;

    @Test
    void servesPlainClientsAndKeepsDataOverARestart() throws Exception {
        Path directory = temp.resolve("new/broker");
        int port;
        try (EmbeddedBroker broker = EmbeddedBroker.start(directory, HOST, 0)) {
            port = broker.port();
            assertThat(broker.bootstrap()).isEqualTo("127.0.0.1:" + port);
            try (Admin admin = admin(broker)) {
                admin.createTopics(List.of(new NewTopic("t", 2, (short) 1))).all().get(30, TimeUnit.SECONDS);
                assertThat(admin.listTopics().names().get(30, TimeUnit.SECONDS)).containsExactly("t");
                assertThatThrownBy(() -> admin.describeTopics(List.of("u")).allTopicNames().get(30, TimeUnit.SECONDS))
                        .as("topics are not created by use")
                        .hasCauseInstanceOf(UnknownTopicOrPartitionException.class);
            }
            produceInTransaction(broker, "before");
            assertThatThrownBy(() -> EmbeddedBroker.start(directory, HOST, 0))
                    .isInstanceOfSatisfying(EmbeddedException.class, hasCode("EMBEDDED_DIR"))
                    .hasMessage("embedded broker: the directory %s is in use by another broker; stop that one or name"
                            + " another directory", directory);
            assertThatThrownBy(() -> EmbeddedBroker.ephemeral(HOST, port))
                    .isInstanceOfSatisfying(EmbeddedException.class, hasCode("EMBEDDED_PORT"))
                    .hasMessageStartingWith("embedded broker: cannot listen on 127.0.0.1:%d: ", port);
        }
        try (EmbeddedBroker broker = EmbeddedBroker.start(directory, HOST, port)) {
            produceInTransaction(broker, "after");
            List<ConsumerRecord<String, String>> records = consume(broker, 2);
            assertThat(records).extracting(ConsumerRecord::value).containsExactly("before", "after");
            assertThat(records.get(0).headers().lastHeader("traceparent").value())
                    .isEqualTo("00-ab".getBytes(StandardCharsets.UTF_8));
            assertThat(broker.port()).isEqualTo(port);
        }
    }

    @Test
    void canBeReachedByAnotherNameThanItsAddress() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.start(temp, "0.0.0.0", 0, "localhost");
                Admin admin = admin(broker)) {
            assertThat(broker.bootstrap()).isEqualTo("localhost:" + broker.port());
            assertThat(admin.listTopics().names().get(30, TimeUnit.SECONDS)).isEmpty();
        }
        assertThatThrownBy(() -> EmbeddedBroker.start(temp, "0.0.0.0", 0))
                .isInstanceOfSatisfying(EmbeddedException.class, hasCode("EMBEDDED_START"))
                .hasMessage("embedded broker: expected an advertised host that clients can connect to, got \"0.0.0.0\";"
                        + " name this machine as clients know it");
    }

    @Test
    void anEphemeralDirectoryIsGoneAfterwards() {
        Path directory;
        try (EmbeddedBroker broker = EmbeddedBroker.ephemeral(HOST, 0)) {
            directory = broker.directory();
            assertThat(directory).isDirectory();
        }
        assertThat(directory).doesNotExist();
    }

    @Test
    void refusesAPortThatIsTaken() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getByName(HOST))) {
            int port = taken.getLocalPort();
            assertThatThrownBy(() -> EmbeddedBroker.start(temp, HOST, port))
                    .isInstanceOfSatisfying(EmbeddedException.class, hasCode("EMBEDDED_PORT"))
                    .hasMessage("embedded broker: cannot listen on 127.0.0.1:%d: Address already in use; stop what uses"
                            + " the port, or take port 0 for a free one", port);
        }
    }

    @Test
    void refusesADirectoryThatIsAFile() throws Exception {
        Path file = Files.createFile(temp.resolve("file"));
        assertThatThrownBy(() -> EmbeddedBroker.start(file, HOST, 0))
                .isInstanceOfSatisfying(EmbeddedException.class, hasCode("EMBEDDED_DIR"))
                .hasMessageStartingWith("embedded broker: cannot use the directory " + file);
    }

    @Test
    void refusesDataOfAnotherNode() throws Exception {
        Path data = Files.createDirectories(temp.resolve("kafka"));
        Files.writeString(data.resolve("meta.properties"),
                "version=1\nnode.id=7\ncluster.id=AAAAAAAAQAAAAAAAAAAAAQ\ndirectory.id=AAAAAAAAQAAAAAAAAAAAAg\n");
        assertThatThrownBy(() -> EmbeddedBroker.start(temp, HOST, 0))
                .isInstanceOfSatisfying(EmbeddedException.class, hasCode("EMBEDDED_START"))
                .hasMessageStartingWith("embedded broker: cannot start in " + temp);
        assertThat(temp.resolve("broker.lock")).as("released").isRegularFile();
    }

    @Test
    void logsAFatalFaultBeforeTheProcessHalts() throws Exception {
        Path log = temp.resolve("log.txt");
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--enable-native-access=ALL-UNNAMED",
                        "--sun-misc-unsafe-memory-access=allow",
                        "-Djava.io.tmpdir=" + temp,
                        "-cp",
                        System.getProperty("java.class.path"),
                        Faulty.class.getName())
                .redirectErrorStream(true)
                .redirectOutput(log.toFile())
                .start();
        assertThat(process.waitFor(120, TimeUnit.SECONDS)).isTrue();
        assertThat(process.exitValue()).as(Files.readString(log)).isEqualTo(3);
        assertThat(Files.readString(log))
                .contains("ERROR EmbeddedBroker: embedded broker: fatal fault, the process halts with status 3: disk gone");
    }

    /// A process whose broker comes upon a fault that it cannot survive.
    static final class Faulty {
        private Faulty() {}

        static void main() {
            EmbeddedBroker.ephemeral(HOST, 0);
            Exit.halt(3, "disk gone");
        }
    }

    private static Consumer<EmbeddedException> hasCode(String code) {
        return e -> assertThat(e.code()).isEqualTo(code);
    }

    private static Admin admin(EmbeddedBroker broker) {
        return Admin.create(Map.<String, Object>of("bootstrap.servers", broker.bootstrap()));
    }

    private static void produceInTransaction(EmbeddedBroker broker, String value) {
        Map<String, Object> settings = Map.of("bootstrap.servers", broker.bootstrap(), "transactional.id", "it");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            ProducerRecord<String, String> record = new ProducerRecord<>("t", 1, "key", value);
            record.headers().add("traceparent", "00-ab".getBytes(StandardCharsets.UTF_8));
            producer.send(record);
            producer.commitTransaction();
        }
    }

    private static List<ConsumerRecord<String, String>> consume(EmbeddedBroker broker, int count) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", broker.bootstrap(),
                "auto.offset.reset", "earliest",
                "isolation.level", "read_committed",
                "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition("t", 1);
            consumer.assign(List.of(partition));
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (records.size() < count && System.nanoTime() < deadline) {
                records.addAll(consumer.poll(Duration.ofMillis(200)).records(partition));
            }
            return records;
        }
    }
}

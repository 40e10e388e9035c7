package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.AuditReport;
import millrace.schemas.Prompt;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.cli.Main;
import millrace.streams.embedded.EmbeddedBroker;
import millrace.streams.embedded.SecuredBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// The rights of docs/security.md, given by its own commands on a broker with TLS, log-in and an authorizer, are enough
/// for the service, its clients and its auditors, and allow nothing else.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class SecurityIT {
    private static final List<String> USERS = List.of("admin", "app", "millrace", "auditor", "operator");
    private static final List<String> ALL = List.of(
            "llm.prompts", "llm.completions", "llm.deltas", "llm.cancels", "llm.audit", "llm.audit.checkpoints", "llm.audit.faults",
            "llm.audit.cosigs", "llm.control", "llm.audit.salts", "llm.dlq");

    @TempDir
    private static Path directory;

    private static EmbeddedBroker broker;
    private static Path trusted;

    @BeforeAll
    static void start() throws Exception {
        Path keys = directory.resolve("broker.p12");
        trusted = directory.resolve("ca.pem");
        keytool("-genkeypair", "-alias", "broker", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30", "-dname", "CN=127.0.0.1",
                "-ext", "san=ip:127.0.0.1,dns:localhost", "-storetype", "PKCS12", "-keystore", keys.toString(), "-storepass", "changeit");
        keytool("-exportcert", "-rfc", "-alias", "broker", "-keystore", keys.toString(), "-storepass", "changeit", "-file", trusted.toString());
        broker = SecuredBroker.start(USERS, keys, trusted, "changeit");
        Path admin = directory.resolve("admin.properties");
        Files.writeString(admin, lines(SecuredBroker.client("admin", trusted)));
        createTopics(admin);
        for (String command : commandsOfThePage()) {
            KafkaTools.run(command.replace("b1:9093", broker.bootstrap()).replace("admin.properties", admin.toString()));
        }
    }

    @AfterAll
    static void stop() {
        if (broker != null) {
            broker.close();
        }
    }

    private static void keytool(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "keytool").toString()));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
    }

    private static String lines(Map<String, String> properties) {
        StringBuilder text = new StringBuilder();
        properties.forEach((key, value) -> text.append(key).append('=').append(value).append('\n'));
        return text.toString();
    }

    private static void createTopics(Path admin) throws Exception {
        StringWriter said = new StringWriter();
        CommandLine line = Main.commandLine().setOut(new PrintWriter(said)).setErr(new PrintWriter(said));
        assertThat(line.execute("topics", "create", "-b", broker.bootstrap(), "--command-config", admin.toString(), "--partitions", "1",
                "-D", "audit.single.node=true")).as(said.toString()).isZero();
        assertThat(said.toString()).doesNotContain("hunter2");
        try (Admin client = Admin.create(client("admin"))) {
            List<NewTopic> others = new ArrayList<>();
            for (String topic : ALL) {
                if (!client.listTopics().names().get(30, TimeUnit.SECONDS).contains(topic)) {
                    others.add(new NewTopic(topic, 1, (short) 1));
                }
            }
            client.createTopics(others).all().get(30, TimeUnit.SECONDS);
        }
    }

    /// The lines of the page that give rights, each on one line.
    private static List<String> commandsOfThePage() throws Exception {
        String page = Files.readString(Repository.root().resolve("docs/security.md")).replace("\\\n", " ");
        List<String> commands = page.lines().filter(line -> line.startsWith("kafka-acls.sh ")).toList();
        assertThat(commands).hasSizeGreaterThan(10);
        return commands;
    }

    private static Map<String, Object> client(String user) {
        Map<String, Object> properties = new HashMap<>(SecuredBroker.client(user, trusted));
        properties.put("bootstrap.servers", broker.bootstrap());
        return properties;
    }

    private static Map<String, String> settings(String user) {
        Map<String, String> settings = new HashMap<>(Map.of(
                "schema.registry.url", "mock://security", "state.dir", directory.resolve(user).toString(), "health.port", "-1",
                "topics.create", "false", "audit.single.node", "true", "topics.replication.factor", "1"));
        client(user).forEach((key, value) -> settings.put("kafka." + key, value.toString()));
        return settings;
    }

    @Test
    @Order(1)
    void theseRightsAreEnoughToServeToAskAndToAudit() {
        List<String> story = new ArrayList<>();
        ServiceConfig service = ServiceConfig.of(settings("millrace"));
        try (InferenceService running = InferenceService.start(service, config -> new NoOpEngine(), true, story::add);
                ClusterClient app = new ClusterClient(ServiceConfig.of(settings("app")));
                ClusterClient auditor = new ClusterClient(ServiceConfig.of(settings("auditor")))) {
            for (int i = 0; i < 5; i++) {
                app.send(Prompt.newBuilder().setRequestId("r-" + i).setPrompt("q" + i).build());
            }
            for (int i = 0; i < 5; i++) {
                assertThat(app.await("r-" + i, Duration.ofSeconds(60)).getText()).isEqualTo("q" + i);
            }
            AuditReport report = auditor.audit(NoteVerifier.parse(running.vkey()));
            for (int i = 0; i < 100 && report.checkpoints() == 0; i++) { // signed a moment after it was written
                ClusterClient.sleep(100);
                report = auditor.audit(NoteVerifier.parse(running.vkey()));
            }
            assertThat(report.word()).as(report.text()).isEqualTo("ok");
            assertThat(report.matched()).isEqualTo(5);
        }
        assertThat(story).last().isEqualTo("ready");
        assertThat(String.join("\n", story)).doesNotContain("hunter2");
    }

    /// The last: what it writes, where it may, no service could go on from.
    @Test
    @Order(3)
    void nothingElseIsAllowed() {
        Map<String, List<String>> mayWrite = Map.of(
                "app", List.of("llm.prompts", "llm.cancels"),
                "millrace", List.of("llm.completions", "llm.deltas", "llm.audit", "llm.audit.checkpoints", "llm.audit.faults",
                        "llm.audit.salts", "llm.dlq"),
                "auditor", List.of(),
                "operator", List.of("llm.control"));
        mayWrite.forEach((user, topics) -> {
            try (KafkaProducer<byte[], byte[]> producer = producer(user)) {
                assertThat(ALL.stream().filter(topic -> mayWrite(producer, topic)).toList())
                        .as("%s may write", user).containsExactlyInAnyOrderElementsOf(topics);
            }
        });
        try (KafkaProducer<byte[], byte[]> producer = producer("admin")) {
            assertThat(ALL).allMatch(topic -> mayWrite(producer, topic));
        }
        Map<String, List<String>> mayRead = Map.of(
                "app", List.of("llm.completions", "llm.deltas"),
                "millrace", List.of("llm.prompts", "llm.cancels", "llm.control", "llm.audit", "llm.audit.checkpoints", "llm.audit.faults",
                        "llm.audit.cosigs"),
                "auditor", List.of("llm.completions", "llm.audit", "llm.audit.checkpoints", "llm.audit.faults", "llm.audit.cosigs"),
                "operator", List.of("llm.audit", "llm.audit.checkpoints", "llm.audit.faults", "llm.audit.salts", "llm.dlq"));
        mayRead.forEach((user, topics) -> {
            try (var consumer = new KafkaConsumer<>(client(user), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                assertThat(ALL.stream().filter(topic -> mayRead(consumer, topic)).toList())
                        .as("%s may read", user).containsExactlyInAnyOrderElementsOf(topics);
            }
        });
    }

    private static boolean mayWrite(KafkaProducer<byte[], byte[]> producer, String topic) {
        try {
            producer.send(new ProducerRecord<>(topic, 0, "k".getBytes(StandardCharsets.UTF_8), null)).get(30, TimeUnit.SECONDS);
            return true;
        } catch (ExecutionException e) {
            assertThat(e.getCause()).isInstanceOf(TopicAuthorizationException.class);
            return false;
        } catch (InterruptedException | TimeoutException e) {
            throw new IllegalStateException(e);
        }
    }

    /// There is a record in every topic by now.
    private static boolean mayRead(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        try {
            consumer.seekToBeginning(consumer.assignment());
            while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                assertThat(System.nanoTime()).as("%s: neither a record nor a refusal", topic).isLessThan(until);
            }
            return true;
        } catch (TopicAuthorizationException e) {
            return false;
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String user) {
        Map<String, Object> properties = client(user);
        properties.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, false);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Test
    @Order(2)
    void aWrongPasswordIsNamedAndNotShown() {
        Map<String, String> settings = settings("millrace");
        settings.put("state.dir", directory.resolve("wrong").toString());
        settings.put("kafka.sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"millrace\""
                + " password=\"hunter2-wrong\";");
        assertThatThrownBy(() -> InferenceService.start(ServiceConfig.of(settings), config -> new NoOpEngine(), true, line -> {}))
                .hasMessageContaining("Authentication failed").hasMessageNotContaining("hunter2");
    }
}

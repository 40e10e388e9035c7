package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import millrace.engine.Engine;
import millrace.engine.TextEngine;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.AuditReport;
import millrace.schemas.Completion;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.bench.PacedEngine;
import millrace.streams.cli.Main;
import millrace.streams.registry.RegisteredSchema;
import millrace.streams.registry.RegistryException;
import millrace.streams.registry.RegistryOrders;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// What Millrace needs of a Kafka cluster and of a schema registry, whoever made them. A subclass says where they are.
///
/// Everything on them is named after [#RUN], so that runs on a cluster that stays do not meet.
@Timeout(value = 5, unit = TimeUnit.MINUTES)
abstract class ClusterContract {
    /// What the names of all topics, subjects and groups of this run begin with.
    static final String RUN = "contract-" + UUID.randomUUID().toString().substring(0, 8);

    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    private Path directory;

    abstract String bootstrap();

    abstract String registryUrl();

    /// Further settings, such as those for access, as variables of the environment.
    Map<String, String> environment() {
        return Map.of();
    }

    /// How cluster and registry are reached.
    final ServiceConfig access() {
        return ServiceConfig.load(null, environment(), where());
    }

    private Map<String, String> where() {
        return new HashMap<>(Map.of("kafka.bootstrap.servers", bootstrap(), "schema.registry.url", registryUrl()));
    }

    /// Settings of a service with topics, group and state of its own; as many replicas as the promises want where there are
    /// brokers for them.
    private Map<String, String> settings(String name) throws Exception {
        int brokers;
        try (Admin admin = new KafkaClients(access()).admin()) {
            brokers = admin.describeCluster().nodes().get(30, TimeUnit.SECONDS).size();
        }
        String own = RUN + "-" + name;
        Map<String, String> settings = where();
        settings.putAll(OwnTopics.of(own));
        settings.putAll(Map.of(
                "topics.cosignatures", own + ".cosignatures", "topics.partitions", "2",
                "topics.replication.factor", brokers < 3 ? "1" : "3", "audit.single.node", Boolean.toString(brokers < 3),
                "application.id", own));
        settings.putAll(Map.of(
                "state.dir", directory.resolve("state").toString(), "health.port", "-1", "topics.create", "false",
                "engine.model", "glm-tiny", "engine.kv.bytes", "16000000", "shutdown.drain.ms", "0"));
        return settings;
    }

    /// The configuration for these settings, after `topics create` and `topics check`.
    private ServiceConfig prepared(Map<String, String> settings) {
        for (String command : List.of("create", "check")) {
            List<String> arguments = new ArrayList<>(List.of("topics", command));
            settings.forEach((key, value) -> arguments.addAll(List.of("-D", key + "=" + value)));
            StringWriter output = new StringWriter();
            PrintWriter writer = new PrintWriter(output);
            CommandLine line = Main.commandLine().setOut(writer).setErr(writer);
            assertThat(line.execute(arguments.toArray(String[]::new))).as(() -> "topics " + command + ": " + output).isZero();
        }
        return ServiceConfig.load(null, environment(), settings);
    }

    private TextEngine glmTiny(ServiceConfig config) {
        return Engine.open(config.engine(Models.directory("glm-tiny", directory.resolve("models"))));
    }

    private static byte[] key(String id) {
        return id.getBytes(StandardCharsets.UTF_8);
    }

    private static void awaitVerified(ClusterClient client, String vkey) {
        long until = System.nanoTime() + PATIENCE.toNanos();
        AuditReport report = client.audit(NoteVerifier.parse(vkey));
        while (report.word().equals("undecided") && System.nanoTime() < until) { // the end is not signed yet
            ClusterClient.sleep(200);
            report = client.audit(NoteVerifier.parse(vkey));
        }
        assertThat(report.word()).as(report.text()).isEqualTo("ok");
    }

    @Test
    void questionsAreAnsweredOnceEachAndTheAuditVerifies() throws Exception {
        ServiceConfig config = prepared(settings("questions"));
        List<Prompt> prompts = new ArrayList<>();
        for (String line : Models.questions("glm-tiny").subList(0, 20)) {
            Message question = new Message("user", JSON.readTree(line).get("prompt").asText(), null, null, null, List.of());
            prompts.add(Prompt.newBuilder().setRequestId("q-" + prompts.size()).setMessages(List.of(question)).build());
        }
        try (ServiceInstance instance = ServiceInstance.start(config, glmTiny(config));
                ClusterClient client = new ClusterClient(config)) {
            prompts.forEach(client::send);
            for (Prompt prompt : prompts) {
                Completion completion = client.await(prompt.getRequestId(), PATIENCE);
                assertThat(completion.getModelDigest()).isEqualTo(instance.service().card().modelDigest());
                assertThat(completion.getText()).isNotBlank();
            }
            client.send(prompts.getFirst()); // a client that did not see its answer
            Prompt after = Prompt.newBuilder().setRequestId("after").setPrompt("2 + 2").build();
            client.sendRaw(key(prompts.getFirst().getRequestId()), client.encode(after), new RecordHeaders());
            client.await("after", PATIENCE);
            prompts.add(after);
            client.assertExactlyOnce(prompts.stream().map(Prompt::getRequestId).toList());
            awaitVerified(client, instance.service().vkey());
            assertThat(client.registry().latest(config.string("topics.completions") + "-value").schema())
                    .isEqualTo(Completion.getClassSchema());
        }
    }

    @Test
    void whatWasInFlightIsAnsweredOnceAfterTheRestart() throws Exception {
        ServiceConfig config = prepared(settings("restart"));
        String words = IntStream.range(0, 1_000).mapToObj(i -> "w" + i).collect(Collectors.joining(" "));
        List<String> ids = IntStream.range(0, 12).mapToObj(i -> "r-" + i).toList();
        PacedEngine slow = new PacedEngine(Duration.ofMillis(100));
        try (ServiceInstance _ = ServiceInstance.start(config, slow); ClusterClient client = new ClusterClient(config)) {
            ids.forEach(id -> client.send(Prompt.newBuilder().setRequestId(id).setPrompt(words).build()));
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (slow.load() < ids.size()) {
                assertThat(System.nanoTime()).as("%d of %d prompts in flight", slow.load(), ids.size()).isLessThan(until);
                ClusterClient.sleep(5);
            }
            assertThat(client.answered()).isZero();
        }
        try (ServiceInstance instance = ServiceInstance.start(config, new PacedEngine(Duration.ZERO));
                ClusterClient client = new ClusterClient(config)) {
            ids.forEach(id -> assertThat(client.await(id, PATIENCE).getText()).isEqualTo(words));
            client.assertExactlyOnce(ids);
            awaitVerified(client, instance.service().vkey());
        }
    }

    @Test
    void theRegistryKeepsIdsAndVersionsAndRefusesWhatReadersCouldNotRead() {
        Map<String, String> registry = access().registry();
        String subject = RUN + ".orders-value";
        Schema first = order().endRecord();
        Schema second = order().name("note").type().stringType().stringDefault("").endRecord();
        Schema breaking = order().requiredString("owner").endRecord();
        try (SchemaRegistryClient writer = SchemaRegistryClient.open(registry);
                SchemaRegistryClient reader = SchemaRegistryClient.open(registry)) {
            writer.ping();
            assertThatThrownBy(() -> reader.latest(subject)).isInstanceOfSatisfying(RegistryException.class,
                    e -> assertThat(e.errorCode()).isEqualTo(40401));
            assertThat(reader.versions(subject)).isEmpty();
            int id = writer.register(subject, first);
            assertThat(reader.register(subject, first)).as("the same schema again").isEqualTo(id);
            assertThat(reader.lookup(subject, first)).isEqualTo(new RegisteredSchema(subject, 1, id, first));
            RegistryOrders.send(registry, "PUT", "/config/" + subject, "{\"compatibility\":\"BACKWARD\"}");
            assertThat(isCompatible(registry, subject, second)).isTrue();
            assertThat(isCompatible(registry, subject, breaking)).isFalse();
            int next = writer.register(subject, second);
            assertThat(next).isNotEqualTo(id);
            assertThatThrownBy(() -> writer.register(subject, breaking)).isInstanceOfSatisfying(RegistryException.class, e -> {
                assertThat(e.code()).isEqualTo("REGISTRY_REFUSED");
                assertThat(e.errorCode()).isIn(409, 40901);
            });
        }
        try (SchemaRegistryClient later = SchemaRegistryClient.open(registry)) {
            List<RegisteredSchema> versions = later.versions(subject);
            assertThat(versions).extracting(RegisteredSchema::schema).containsExactly(first, second);
            assertThat(later.latest(subject)).isEqualTo(versions.getLast());
            assertThat(later.byId(versions.getFirst().id())).isEqualTo(first);
        }
        try (SchemaRegistryClient fresh = SchemaRegistryClient.open(registry)) {
            int unknown = Integer.MAX_VALUE;
            assertThatThrownBy(() -> fresh.byId(unknown)).isInstanceOfSatisfying(RegistryException.class,
                    e -> assertThat(e.code()).isEqualTo("SCHEMA_UNKNOWN_ID"));
        }
    }

    /// A schema that no earlier run registered.
    private static SchemaBuilder.FieldAssembler<Schema> order() {
        return SchemaBuilder.record("Order").namespace(RUN.replace('-', '_')).fields().requiredLong("number");
    }

    private static boolean isCompatible(Map<String, String> registry, String subject, Schema schema) {
        String body = JSON.createObjectNode().put("schema", schema.toString()).toString();
        String path = "/compatibility/subjects/" + subject + "/versions/latest";
        try {
            return JSON.readTree(RegistryOrders.send(registry, "POST", path, body)).path("is_compatible").booleanValue();
        } catch (JsonProcessingException e) {
            throw new AssertionError(path, e);
        }
    }
}

package millrace.streams.embedded;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.schemas.AuditPosition;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.Prompt;
import millrace.schemas.Timings;
import millrace.schemas.Usage;
import millrace.streams.registry.AvroSerde;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/// Runs `src/test/npm/clients.mjs`: clients of other makers, in another language, against the embedded servers.
///
/// Off unless MILLRACE_NPM=1, as it installs packages: `MILLRACE_NPM=1 mvn verify -Dit.test=NodeClientsIT`.
@EnabledIfEnvironmentVariable(named = "MILLRACE_NPM", matches = "1")
class NodeClientsIT {
    private static final String HOST = "127.0.0.1";

    @TempDir
    private Path temp;

    @Test
    void foreignClientsReadCompletionsAndSendPrompts() throws Exception {
        assumeTrue(works("node", "--version") && works("npm", "--version"), "node and npm are installed");
        Path scripts = Path.of("src/test/npm");
        for (String file : List.of("package.json", "clients.mjs")) {
            Files.copy(scripts.resolve(file), temp.resolve(file));
        }
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts");
        try (EmbeddedBroker broker = EmbeddedBroker.ephemeral(HOST, 0);
                EmbeddedRegistry registry = EmbeddedRegistry.start(broker.bootstrap(), HOST, 0);
                SchemaRegistryClient client = SchemaRegistryClient.open(
                        Map.of("schema.registry.url", registry.url()))) {
            createTopics(broker);
            client.register("llm.prompts-value", Prompt.getClassSchema());
            sendCompletion(broker, client);
            JsonNode result = new ObjectMapper().readTree(run("node", "clients.mjs", broker.bootstrap(), registry.url()));
            check(result);
            assertThat(readPrompts(broker, client)).extracting(Prompt::getRequestId)
                    .containsExactly("kafkajs", "confluent");
        }
    }

    private static void check(JsonNode result) {
        String seen = "{\"request_id\":\"r-1\",\"text\":\"2 + 2 = 4 \u2713\",\"finish_reason\":\"stop\",\"total\":5}";
        assertThat(result.path("topics").toString()).contains("\"_schemas\"", "\"llm.completions\"", "\"llm.prompts\"");
        assertThat(result.path("header").asText()).isEqualTo("00-ab");
        assertThat(result.path("kafkajs").toString()).isEqualTo(seen);
        assertThat(result.path("confluent").toString()).isEqualTo(seen);
        assertThat(result.path("registered").toString()).isEqualTo("[3,4]");
        assertThat(result.path("subjects").toString()).isEqualTo("[\"foreign-one-value\",\"foreign-two-value\","
                + "\"llm.completions-value\",\"llm.prompts-value\"]");
        assertThat(result.path("compatible").asBoolean()).as("another name is another record").isFalse();
    }

    private static void createTopics(EmbeddedBroker broker) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", broker.bootstrap()))) {
            List<NewTopic> topics = List.of(
                    new NewTopic("llm.prompts", 1, (short) 1), new NewTopic("llm.completions", 1, (short) 1));
            admin.createTopics(topics).all().get(30, TimeUnit.SECONDS);
        }
    }

    private static void sendCompletion(EmbeddedBroker broker, SchemaRegistryClient client) throws Exception {
        Completion completion = Completion.newBuilder()
                .setRequestId("r-1")
                .setModel("m")
                .setModelDigest("sha256:" + "0".repeat(64))
                .setText("2 + 2 = 4 \u2713")
                .setFinishReason(FinishReason.stop)
                .setUsage(new Usage(11, 5, 0))
                .setTimings(new Timings(1L, 2L, 3L))
                .setSeed(7)
                .setAudit(new AuditPosition("origin", 0, 0L, new Hash(new byte[32])))
                .setSalt(ByteBuffer.allocate(32))
                .build();
        Map<String, Object> settings = Map.of("bootstrap.servers", broker.bootstrap());
        AvroSerde<Completion> serde = AvroSerde.of(client, Completion.class, false, Map.of());
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), serde.serializer())) {
            var record = new ProducerRecord<>("llm.completions", "k", completion);
            record.headers().add("traceparent", "00-ab".getBytes(StandardCharsets.UTF_8));
            producer.send(record).get(30, TimeUnit.SECONDS);
        }
    }

    private static List<Prompt> readPrompts(EmbeddedBroker broker, SchemaRegistryClient client) {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", broker.bootstrap(), "auto.offset.reset", "earliest");
        AvroSerde<Prompt> serde = AvroSerde.of(client, Prompt.class, false, Map.of());
        List<Prompt> prompts = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), serde.deserializer())) {
            consumer.assign(List.of(new TopicPartition("llm.prompts", 0)));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (prompts.size() < 2 && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> prompts.add(record.value()));
            }
        }
        return prompts;
    }

    private String run(String... command) throws Exception {
        Path output = temp.resolve("output.txt");
        Process process = new ProcessBuilder(command)
                .directory(temp.toFile())
                .redirectOutput(output.toFile())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        boolean ended = process.waitFor(3, TimeUnit.MINUTES);
        if (!ended) {
            process.destroyForcibly();
        }
        assertThat(ended && process.exitValue() == 0)
                .as("%s: %s", String.join(" ", command), Files.readString(output))
                .isTrue();
        return Files.readString(output);
    }

    private static boolean works(String... command) throws InterruptedException {
        try {
            return new ProcessBuilder(command)
                            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                            .redirectError(ProcessBuilder.Redirect.DISCARD)
                            .start()
                            .waitFor()
                    == 0;
        } catch (IOException e) {
            return false;
        }
    }
}

package millrace.streams.embedded;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.streams.registry.AvroDeserializer;
import millrace.streams.registry.AvroSerializer;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EmbeddedRegistryIT {
    private static final String HOST = "127.0.0.1";

    @TempDir
    private Path temp;

    @Test
    void comesBackFromItsTopicAndServesSerializersConfiguredByName() throws Exception {
        int prompts;
        int completions;
        try (EmbeddedBroker broker = EmbeddedBroker.start(temp, HOST, 0)) {
            try (EmbeddedRegistry registry = EmbeddedRegistry.start(broker.bootstrap(), HOST, 0);
                    SchemaRegistryClient client = client(registry)) {
                prompts = client.register("llm.prompts-value", Prompt.getClassSchema());
                completions = client.register("llm.completions-value", Completion.getClassSchema());
                assertThat(List.of(prompts, completions)).containsExactly(1, 2);
            }
            try (EmbeddedRegistry again = EmbeddedRegistry.start(broker.bootstrap(), HOST, 0)) {
                roundTrip(broker, again);
            }
        }
        try (EmbeddedBroker broker = EmbeddedBroker.start(temp, HOST, 0);
                EmbeddedRegistry registry = EmbeddedRegistry.start(broker.bootstrap(), HOST, 0);
                SchemaRegistryClient client = client(registry)) {
            assertThat(client.latest("llm.prompts-value").id()).isEqualTo(prompts);
            assertThat(client.byId(completions)).isEqualTo(Completion.getClassSchema());
            assertThat(client.register("other-value", Completion.getClassSchema())).isEqualTo(completions);
            checkTopic(broker);
        }
    }

    private static SchemaRegistryClient client(EmbeddedRegistry registry) {
        return SchemaRegistryClient.open(Map.of("schema.registry.url", registry.url()));
    }

    private static void roundTrip(EmbeddedBroker broker, EmbeddedRegistry registry) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", broker.bootstrap()))) {
            admin.createTopics(List.of(new NewTopic("llm.prompts", 1, (short) 1))).all().get(30, TimeUnit.SECONDS);
        }
        Prompt prompt = Prompt.newBuilder().setRequestId("r-1").setPrompt("hello").build();
        Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", broker.bootstrap(),
                "schema.registry.url", registry.url(),
                "specific.avro.value.type", Prompt.class.getName(),
                "auto.register.schemas", false,
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false));
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", AvroSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", AvroDeserializer.class.getName());
        try (KafkaProducer<String, Prompt> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>("llm.prompts", "k", prompt)).get(30, TimeUnit.SECONDS);
        }
        try (KafkaConsumer<String, Prompt> consumer = new KafkaConsumer<>(settings)) {
            assertThat(read(consumer, "llm.prompts", 1)).extracting(ConsumerRecord::value).containsExactly(prompt);
        }
    }

    private static void checkTopic(EmbeddedBroker broker) throws Exception {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", broker.bootstrap(), "auto.offset.reset", "earliest");
        Deserializer<String> text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            List<ConsumerRecord<String, String>> records = read(consumer, "_schemas", 3);
            assertThat(records.get(0).key())
                    .isEqualTo("{\"keytype\":\"SCHEMA\",\"subject\":\"llm.prompts-value\",\"version\":1,\"magic\":1}");
            assertThat(records.get(0).value()).contains("\"id\":1", "\"deleted\":false");
        }
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", broker.bootstrap()))) {
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, "_schemas");
            var config = admin.describeConfigs(List.of(topic)).all().get(30, TimeUnit.SECONDS).get(topic);
            assertThat(config.get("cleanup.policy").value()).isEqualTo("compact");
        }
    }

    private static <V> List<ConsumerRecord<String, V>> read(
            KafkaConsumer<String, V> consumer, String topic, int count) {
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(List.of(partition));
        List<ConsumerRecord<String, V>> records = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (records.size() < count && System.nanoTime() < deadline) {
            records.addAll(consumer.poll(Duration.ofMillis(200)).records(partition));
        }
        return records;
    }

    @Test
    void refusesToStartWithoutItsBroker() {
        assertThatThrownBy(() -> EmbeddedRegistry.start("127.0.0.1:1", HOST, 0, Duration.ofSeconds(1)))
                .isInstanceOfSatisfying(EmbeddedException.class, e -> assertThat(e.code()).isEqualTo("EMBEDDED_STORE"))
                .hasMessageStartingWith("embedded registry: cannot read topic _schemas on 127.0.0.1:1: ");
    }
}

package millrace.streams.registry;

import static org.assertj.core.api.Assertions.assertThat;

import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import java.util.List;
import java.util.Map;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.streams.embedded.EmbeddedRegistry;
import org.apache.avro.generic.GenericRecord;
import org.junit.jupiter.api.Test;

/// The serializers of io.confluent and ours write the same bytes and read one another's.
class ConfluentSerializersTest {
    @Test
    void bothWriteTheSameBytesAndReadEachOthers() {
        Prompt prompt = Prompt.newBuilder()
                .setRequestId("r-1")
                .setMessages(List.of(new Message("user", "2 + 2?", null, null, null, List.of())))
                .setMetadata(Map.of("k", "v"))
                .build();
        try (EmbeddedRegistry registry = EmbeddedRegistry.inMemory("127.0.0.1", 0);
                AvroSerde<Prompt> ours = new AvroSerde<>(Prompt.class);
                KafkaAvroSerializer serializer = new KafkaAvroSerializer();
                KafkaAvroDeserializer deserializer = new KafkaAvroDeserializer()) {
            Map<String, Object> configs = Map.of("schema.registry.url", registry.url());
            ours.configure(configs, false);
            serializer.configure(configs, false);
            deserializer.configure(configs, false);
            byte[] theirs = serializer.serialize("t", prompt);
            assertThat(ours.serializer().serialize("t", prompt)).isEqualTo(theirs);
            assertThat(ours.deserializer().deserialize("t", theirs)).isEqualTo(prompt);
            assertThat(deserializer.deserialize("t", ours.serializer().serialize("t", prompt)))
                    .isInstanceOfSatisfying(GenericRecord.class, record -> {
                        assertThat(record.get("request_id")).hasToString("r-1");
                        assertThat(record.get("messages")).hasToString(prompt.getMessages().toString());
                    });
        }
    }
}

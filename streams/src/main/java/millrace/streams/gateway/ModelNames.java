package millrace.streams.gateway;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import millrace.schemas.Completion;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/// The names of the models that answer: those that are configured, and those that were seen to.
final class ModelNames {
    /// Records at a partition's end that are looked at; some of them mark transactions.
    private static final long TAIL = 16;
    private static final Duration PATIENCE = Duration.ofSeconds(3);

    private final Set<String> names = new ConcurrentSkipListSet<>();
    private final List<String> configured;

    ModelNames(Collection<String> configured) {
        this.configured = List.copyOf(configured);
        names.addAll(configured);
    }

    /// Looks at who answered last.
    void readTail(ServiceConfig config) {
        String topic = config.string("topics.completions");
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                KafkaConsumer<byte[], byte[]> consumer = new KafkaClients(config).reader(topic)) {
            AvroDecoder<Completion> decoder = new AvroDecoder<>(registry, Completion.class);
            var ends = consumer.endOffsets(consumer.assignment(), PATIENCE);
            ends.forEach((at, end) -> consumer.seek(at, Math.max(0, end - TAIL)));
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (System.nanoTime() < until && !ends.entrySet().stream().allMatch(end -> reached(consumer, end.getKey(), end.getValue()))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    learn(decoder, record.value());
                }
            }
        }
    }

    private static boolean reached(KafkaConsumer<byte[], byte[]> consumer, TopicPartition at, long end) {
        return consumer.position(at, PATIENCE) >= end;
    }

    private void learn(AvroDecoder<Completion> decoder, byte[] value) {
        try {
            learn(decoder.decode(value).getModel());
        } catch (DecodeException e) {
            // Not one that this version can read; there are others.
            return;
        }
    }

    void learn(String name) {
        names.add(name);
    }

    Set<String> all() {
        return names;
    }

    /// One of them, for answers that cannot know it yet; empty before any is known.
    String any() {
        if (!configured.isEmpty()) {
            return configured.getFirst();
        }
        return names.stream().findFirst().orElse("");
    }
}

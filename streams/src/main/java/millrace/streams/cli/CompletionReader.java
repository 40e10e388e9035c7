package millrace.streams.cli;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import millrace.schemas.Completion;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/// Reads committed completions, as any consumer outside would.
final class CompletionReader implements AutoCloseable {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final AvroDecoder<Completion> decoder;
    private final String topic;

    CompletionReader(ServiceConfig config, SchemaRegistryClient registry, boolean fromBeginning) {
        topic = config.string("topics.completions");
        decoder = new AvroDecoder<>(registry, Completion.class);
        consumer = new KafkaClients(config).reader();
        List<PartitionInfo> partitions = consumer.partitionsFor(topic, Duration.ofSeconds(20));
        if (partitions == null || partitions.isEmpty()) {
            consumer.close();
            throw new IllegalStateException("topic " + topic + " does not exist on " + config.kafka().get("bootstrap.servers")
                    + "; is the service running there?");
        }
        List<TopicPartition> all = partitions.stream().map(p -> new TopicPartition(topic, p.partition())).toList();
        consumer.assign(all);
        if (fromBeginning) {
            consumer.seekToBeginning(all);
        } else {
            consumer.seekToEnd(all);
        }
        // A seek is lazy: without this the position would be taken after the prompt was produced.
        all.forEach(consumer::position);
    }

    /// What came within the timeout; records that are no completions are reported to `bad`.
    List<Completion> poll(Duration timeout, Consumer<String> bad) {
        List<Completion> completions = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(timeout)) {
            try {
                completions.add(decoder.decode(record.value()));
            } catch (DecodeException e) {
                bad.accept(topic + "/" + record.partition() + "/" + record.offset() + ": " + e.code() + ": " + e.getMessage());
            }
        }
        return completions;
    }

    /// Ends a running poll; any thread.
    void wakeup() {
        consumer.wakeup();
    }

    @Override
    public void close() {
        consumer.close();
    }
}

package millrace.streams.cli;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.DecodeException;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/// Reads the committed records of a topic, as any consumer outside would.
///
/// @param <T> what its values are
final class RecordReader<T extends SpecificRecord> implements AutoCloseable {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final AvroDecoder<T> decoder;
    private final String topic;

    /// @param use of the topic, as in the key `topics.<use>`
    RecordReader(ServiceConfig config, SchemaRegistryClient registry, String use, Class<T> type, boolean fromBeginning) {
        topic = config.string("topics." + use);
        decoder = new AvroDecoder<>(registry, type);
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
        // A seek is lazy: without this the position would be taken after the next prompt was produced.
        all.forEach(consumer::position);
    }

    /// What came within the timeout; records that cannot be read are reported to `bad`.
    List<T> poll(Duration timeout, Consumer<String> bad) {
        List<T> records = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(timeout)) {
            try {
                records.add(decoder.decode(record.value()));
            } catch (DecodeException e) {
                bad.accept(topic + "/" + record.partition() + "/" + record.offset() + ": " + e.code() + ": " + e.getMessage());
            }
        }
        return records;
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

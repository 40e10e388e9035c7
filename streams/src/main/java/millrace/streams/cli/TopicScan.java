package millrace.streams.cli;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Predicate;
import millrace.streams.KafkaClients;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/// Reads what is committed in a topic now, from its oldest record on.
final class TopicScan {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long STALL_NANOS = 60_000_000_000L;

    private TopicScan() {}

    /// @param which of its partitions to read
    /// @throws IllegalStateException if there is no such topic or partition, or the broker sends nothing for a minute
    static void read(KafkaClients clients, String topic, Predicate<Integer> which, Consumer<ConsumerRecord<byte[], byte[]>> sink) {
        try (KafkaConsumer<byte[], byte[]> consumer = clients.reader()) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .filter(info -> which.test(info.partition()))
                    .map(info -> new TopicPartition(topic, info.partition())).toList();
            if (partitions.isEmpty()) {
                throw new IllegalStateException("topic " + topic + ": expected it and the partition to exist; check the address and the name");
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long seen = -1;
            long progress = System.nanoTime();
            while (partitions.stream().anyMatch(at -> consumer.position(at) < ends.get(at))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    sink.accept(record);
                }
                long position = partitions.stream().mapToLong(consumer::position).sum();
                if (position > seen) {
                    seen = position;
                    progress = System.nanoTime();
                } else if (System.nanoTime() - progress > STALL_NANOS) {
                    throw new IllegalStateException("topic " + topic + ": expected records, got none for a minute; check the brokers and"
                            + " the right to read");
                }
            }
        }
    }
}

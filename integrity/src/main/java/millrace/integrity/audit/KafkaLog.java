package millrace.integrity.audit;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import millrace.integrity.IntegrityException;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.jspecify.annotations.Nullable;

/// Reads one topic as it was committed, from its oldest record up to the ends that were taken last. Joins no group and
/// commits nothing. Not for use by two threads at once.
final class KafkaLog implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long FIRST_STEP = 4096;

    private final String topic;
    private final Duration stall;
    private final Map<String, Object> client;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<TopicPartition> partitions;
    private Map<TopicPartition, Long> beginnings;
    private Map<TopicPartition, Long> ends = Map.of();
    private @Nullable Refuted wentBack;

    /// @param only the only partition to read; null for all
    /// @throws IntegrityException code `AUDIT_TOPIC_MISSING` if there is no such topic or partition
    KafkaLog(Map<String, Object> client, String topic, @Nullable Integer only, Duration stall) {
        this.topic = topic;
        this.stall = stall;
        this.client = Map.copyOf(client);
        consumer = consumer("read_committed");
        try {
            partitions = partitions(only);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            beginnings = consumer.beginningOffsets(partitions);
        } catch (RuntimeException e) {
            consumer.close();
            throw e;
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String isolation) {
        Map<String, Object> properties = new HashMap<>(client);
        properties.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolation);
        properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        properties.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        properties.remove(ConsumerConfig.GROUP_ID_CONFIG);
        properties.remove(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG);
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /// Takes the ends of what is committed now, and tells in which partitions that is all there is: no transaction that was open
    /// when this was called is still open, so nothing from before can turn up any more.
    List<Integer> takeEndsAndDecided() {
        Map<TopicPartition, Long> written;
        try (KafkaConsumer<byte[], byte[]> all = consumer("read_uncommitted")) {
            written = all.endOffsets(partitions);
        }
        takeEnds();
        return partitions.stream().filter(p -> ends.get(p) >= written.get(p)).map(TopicPartition::partition).toList();
    }

    private List<TopicPartition> partitions(@Nullable Integer only) {
        List<PartitionInfo> known = consumer.partitionsFor(topic);
        List<TopicPartition> found = known == null ? List.of() : known.stream()
                .map(info -> new TopicPartition(topic, info.partition()))
                .filter(partition -> only == null || partition.partition() == only)
                .sorted((a, b) -> Integer.compare(a.partition(), b.partition()))
                .toList();
        if (found.isEmpty()) {
            throw new IntegrityException("AUDIT_TOPIC_MISSING",
                    "topic %s%s: expected it to exist; check the cluster's address and the name"
                            .formatted(topic, only == null ? "" : ", partition " + only));
        }
        return found;
    }

    int partitionCount() {
        return partitions.size();
    }

    /// Partitions whose oldest records are gone.
    List<Integer> truncated() {
        return partitions.stream().filter(p -> beginnings.get(p) > 0).map(TopicPartition::partition).toList();
    }

    /// Passes over what is older; 0 passes over nothing.
    ///
    /// @param timeMs milliseconds since the epoch
    void startAt(long timeMs) {
        if (timeMs <= 0) {
            return;
        }
        Map<TopicPartition, Long> times = new HashMap<>();
        partitions.forEach(partition -> times.put(partition, timeMs));
        Map<TopicPartition, Long> last = consumer.endOffsets(partitions);
        Map<TopicPartition, Long> starts = new HashMap<>();
        consumer.offsetsForTimes(times).forEach((partition, found) ->
                starts.put(partition, found == null ? last.get(partition) : Long.valueOf(found.offset())));
        starts.forEach(consumer::seek);
        beginnings = starts;
    }

    /// Offsets between where the reading starts and the end, over all partitions: about as many records as there are.
    long span() {
        return consumer.endOffsets(partitions).entrySet().stream()
                .mapToLong(end -> end.getValue() - beginnings.get(end.getKey())).sum();
    }

    /// Takes the ends of what is committed now.
    void takeEnds() {
        Map<TopicPartition, Long> now = consumer.endOffsets(partitions);
        for (TopicPartition partition : partitions) {
            long before = ends.getOrDefault(partition, 0L);
            if (wentBack == null && now.get(partition) < before) {
                wentBack = new Refuted("LOG_ROLLED_BACK", "end of the partition", "at least " + before,
                        now.get(partition).toString(), new Place(topic, partition.partition(), now.get(partition)));
            }
        }
        ends = now;
    }

    /// A partition whose end was found before where it was; null if none was.
    @Nullable Refuted wentBack() {
        return wentBack;
    }

    /// Hands over every record before the ends, per partition in order of offset.
    ///
    /// @param sink returns false to stop
    /// @return false if the sink stopped it
    /// @throws IntegrityException code `AUDIT_READ_STALLED` if the broker sends nothing for too long
    boolean read(Predicate<ConsumerRecord<byte[], byte[]>> sink) {
        long progress = System.nanoTime();
        while (true) {
            List<TopicPartition> open = partitions.stream().filter(p -> consumer.position(p) < ends.get(p)).toList();
            if (open.isEmpty()) {
                return true;
            }
            consumer.pause(partitions.stream().filter(p -> !open.contains(p)).toList());
            consumer.resume(open);
            long before = positions(open);
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                if (record.offset() < ends.get(new TopicPartition(topic, record.partition())) && !sink.test(record)) {
                    return false;
                }
            }
            rewind();
            if (positions(open) > before) {
                progress = System.nanoTime();
            } else {
                checkStall(progress, open);
            }
        }
    }

    /// The newest committed record of a partition that passes, looked for from the end backwards; null if there is none. Reading goes
    /// on where it was.
    ///
    /// @throws IntegrityException code `AUDIT_READ_STALLED` if the broker sends nothing for too long
    @Nullable ConsumerRecord<byte[], byte[]> newest(int partition, Predicate<ConsumerRecord<byte[], byte[]>> wanted) {
        TopicPartition at = new TopicPartition(topic, partition);
        long position = consumer.position(at);
        long to = consumer.endOffsets(List.of(at)).get(at);
        consumer.pause(partitions);
        consumer.resume(List.of(at));
        ConsumerRecord<byte[], byte[]> found = null;
        for (long step = FIRST_STEP; found == null && to > beginnings.get(at); step *= 8) {
            long from = Math.max(beginnings.get(at), to - step);
            found = newest(at, from, to, wanted);
            to = from;
        }
        consumer.seek(at, position);
        return found;
    }

    private @Nullable ConsumerRecord<byte[], byte[]> newest(
            TopicPartition at, long from, long to, Predicate<ConsumerRecord<byte[], byte[]>> wanted) {
        consumer.seek(at, from);
        ConsumerRecord<byte[], byte[]> found = null;
        long progress = System.nanoTime();
        for (long before = from; before < to; before = consumer.position(at)) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(at)) {
                if (record.offset() < to && wanted.test(record)) {
                    found = record;
                }
            }
            if (consumer.position(at) > before) {
                progress = System.nanoTime();
            } else {
                checkStall(progress, List.of(at));
            }
        }
        return found;
    }

    private void checkStall(long progressNanos, List<TopicPartition> open) {
        if (System.nanoTime() - progressNanos > stall.toNanos()) {
            throw new IntegrityException("AUDIT_READ_STALLED",
                    "topic %s: expected records of %s, got none for %d s; check the brokers and the right to read"
                            .formatted(topic, open, stall.toSeconds()));
        }
    }

    /// Goes back to the end where a batch reached past it, so that those records come once the end has moved.
    private void rewind() {
        for (TopicPartition partition : partitions) {
            if (consumer.position(partition) > ends.get(partition)) {
                consumer.seek(partition, ends.get(partition));
            }
        }
    }

    private long positions(List<TopicPartition> open) {
        return open.stream().mapToLong(consumer::position).sum();
    }

    @Override
    public void close() {
        consumer.close();
    }
}

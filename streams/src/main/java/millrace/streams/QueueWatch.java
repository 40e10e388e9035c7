package millrace.streams;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Asks the cluster every second how far the prompts of the partitions that this process owns are behind.
///
/// A consumer's own lag stands still while its partitions are held back, which is when it matters most.
final class QueueWatch implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(QueueWatch.class);
    private static final Duration EVERY = Duration.ofSeconds(1);
    private static final int ANSWER_WITHIN_MS = 10_000;

    private final Admin admin;
    private final String group;
    private final String topic;
    private final PartitionQueues queues;
    private final Thread thread;
    private volatile boolean closing;
    private boolean failing;

    private QueueWatch(Admin admin, String group, String topic, PartitionQueues queues) {
        this.admin = admin;
        this.group = group;
        this.topic = topic;
        this.queues = queues;
        this.thread = Thread.ofPlatform().name("millrace-queue-watch").daemon().unstarted(this::run);
    }

    /// @param admin closed with the watch
    static QueueWatch start(Admin admin, String group, String topic, PartitionQueues queues) {
        QueueWatch watch = new QueueWatch(admin, group, topic, queues);
        watch.thread.start();
        return watch;
    }

    private void run() {
        while (!closing) {
            Set<Integer> owned = queues.owned();
            try {
                queues.lags(lags(owned));
                failing = false;
            } catch (InterruptedException e) {
                return;
            } catch (ExecutionException | KafkaException e) {
                queues.lags(owned.stream().collect(Collectors.toMap(p -> p, p -> Double.NaN)));
                if (!failing && !closing) {
                    LOG.warn("the lag of {} is not known for now: {}", topic, e.toString());
                }
                failing = true;
            }
            LockSupport.parkNanos(EVERY.toNanos());
        }
    }

    private Map<Integer, Double> lags(Set<Integer> owned) throws ExecutionException, InterruptedException {
        Map<Integer, Double> lags = new HashMap<>();
        if (owned.isEmpty()) {
            return lags;
        }
        Set<TopicPartition> partitions = owned.stream().map(p -> new TopicPartition(topic, p)).collect(Collectors.toSet());
        Map<TopicPartition, OffsetAndMetadata> committed = admin
                .listConsumerGroupOffsets(group, new ListConsumerGroupOffsetsOptions().timeoutMs(ANSWER_WITHIN_MS))
                .partitionsToOffsetAndMetadata().get();
        Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> ends = offsets(partitions, OffsetSpec.latest());
        Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> begins = offsets(partitions, OffsetSpec.earliest());
        for (TopicPartition partition : partitions) {
            OffsetAndMetadata next = committed.get(partition);
            // Nothing was committed yet: the group begins with the oldest record.
            long from = Math.max(begins.get(partition).offset(), next == null ? 0 : next.offset());
            lags.put(partition.partition(), (double) Math.max(0, ends.get(partition).offset() - from));
        }
        return lags;
    }

    private Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> offsets(Set<TopicPartition> partitions, OffsetSpec spec)
            throws ExecutionException, InterruptedException {
        return admin.listOffsets(
                partitions.stream().collect(Collectors.toMap(p -> p, p -> spec)),
                new ListOffsetsOptions(IsolationLevel.READ_COMMITTED).timeoutMs(ANSWER_WITHIN_MS)).all().get();
    }

    @Override
    public void close() {
        closing = true;
        thread.interrupt();
        admin.close(Duration.ofSeconds(5));
    }
}

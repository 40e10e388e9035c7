package millrace.integrity.audit;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Predicate;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.Verdict.Place;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import millrace.schemas.Schemas;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.jspecify.annotations.Nullable;

/// Brings together what there is of some answers: the leaf, the completion, and the prompt record. The log is verified
/// on the way.
public final class AnswerReader {
    /// A seek costs less than reading so many records that are not wanted.
    private static final long SEEK_BEYOND = 500;

    /// One answer.
    ///
    /// @param completion null where it is no longer in the topic
    /// @param prompt the record that it answers; null where it is no longer there, or there never was one
    public record Answer(Checked leaf, @Nullable Completion completion, @Nullable ConsumerRecord<byte[], byte[]> prompt) {
        /// Names it in messages.
        public String name() {
            AttestationRecord record = leaf.record();
            return "leaf %d of %s".formatted(record.getSeq(), record.getLogOrigin());
        }
    }

    /// Which answers to read.
    ///
    /// @param wanted true for a leaf that may be read
    /// @param most of them at most, drawn evenly; 0 for all
    /// @param seed of the drawing
    public record Selection(Predicate<Checked> wanted, int most, long seed) {}

    /// @param log the verifier, for its violation
    public record Read(List<Answer> answers, LogVerifier log) {
        public Read {
            answers = List.copyOf(answers);
        }
    }

    private final AuditOptions options;
    private final Selection selection;
    private final SplittableRandom random;
    private final List<Checked> drawn = new ArrayList<>();
    private long candidates;

    private AnswerReader(AuditOptions options, Selection selection) {
        this.options = options;
        this.selection = selection;
        random = new SplittableRandom(selection.seed());
    }

    /// Reads the answers, in order of partition and seq.
    ///
    /// @param options names the audit and the completions topic
    /// @throws IntegrityException codes of [AuditVerifier#run]
    public static Read read(AuditOptions options, Selection selection, Consumer<AuditVerifier.Progress> progress) {
        AnswerReader reader = new AnswerReader(options, selection);
        LogVerifier log = LeafScan.read(options, (leaf, value) -> reader.draw(leaf), progress);
        reader.drawn.sort(Comparator.comparing((Checked leaf) -> leaf.place().partition())
                .thenComparing(leaf -> leaf.place().offset()));
        Map<String, Completion> completions = reader.completions();
        Map<Place, ConsumerRecord<byte[], byte[]>> prompts = reader.prompts();
        return new Read(reader.drawn.stream()
                .map(leaf -> new Answer(leaf, completions.get(key(leaf.record())), prompts.get(cause(leaf.record()))))
                .toList(), log);
    }

    /// Algorithm R: every leaf that is wanted has the same chance to be among those kept.
    private void draw(Checked leaf) {
        if (!selection.wanted().test(leaf)) {
            return;
        }
        candidates++;
        if (selection.most() == 0 || drawn.size() < selection.most()) {
            drawn.add(leaf);
        } else {
            long at = random.nextLong(candidates);
            if (at < selection.most()) {
                drawn.set((int) at, leaf);
            }
        }
    }

    private static String key(AttestationRecord record) {
        return record.getSeq() + " " + record.getLogOrigin();
    }

    private static Place cause(AttestationRecord record) {
        return new Place(record.getInTopic(), record.getInPartition(), record.getInOffset());
    }

    private Map<String, Completion> completions() {
        Map<String, Completion> found = new HashMap<>();
        String topic = options.completionsTopic();
        if (topic == null || drawn.isEmpty()) {
            return found;
        }
        Map<String, Checked> wanted = new HashMap<>();
        drawn.forEach(leaf -> wanted.put(key(leaf.record()), leaf));
        WireReader<Completion> reader = new WireReader<>(Schemas.COMPLETION, options.resolver());
        try (KafkaLog log = new KafkaLog(options.client(), topic, null, options.stall())) {
            log.takeEnds();
            log.read(record -> {
                Completion completion = readable(reader, record.value());
                if (completion != null) {
                    String key = completion.getAudit().getSeq() + " " + completion.getAudit().getOrigin();
                    if (wanted.containsKey(key)) {
                        found.putIfAbsent(key, completion);
                    }
                }
                return found.size() < wanted.size();
            });
        }
        return found;
    }

    private static @Nullable Completion readable(WireReader<Completion> reader, byte @Nullable [] value) {
        try {
            return reader.read(value).record();
        } catch (IntegrityException notOne) {
            return null;
        }
    }

    private Map<Place, ConsumerRecord<byte[], byte[]>> prompts() {
        Map<TopicPartition, TreeSet<Long>> wanted = new TreeMap<>(
                Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        for (Checked leaf : drawn) {
            Place cause = cause(leaf.record());
            if (cause.offset() >= 0) {
                wanted.computeIfAbsent(new TopicPartition(cause.topic(), cause.partition()), key -> new TreeSet<>())
                        .add(cause.offset());
            }
        }
        Map<Place, ConsumerRecord<byte[], byte[]>> found = new HashMap<>();
        if (!wanted.isEmpty()) {
            Map<String, Object> properties = new HashMap<>(options.client());
            properties.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
            properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
            properties.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
            properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
            properties.remove(ConsumerConfig.GROUP_ID_CONFIG);
            properties.remove(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG);
            try (var consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                wanted.forEach((partition, offsets) -> read(consumer, partition, offsets, found));
            }
        }
        return found;
    }

    private void read(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, TreeSet<Long> wanted,
            Map<Place, ConsumerRecord<byte[], byte[]>> found) {
        List<PartitionInfo> known = consumer.partitionsFor(partition.topic());
        if (known == null || known.stream().noneMatch(info -> info.partition() == partition.partition())) {
            return;
        }
        consumer.assign(List.of(partition));
        long end = consumer.endOffsets(List.of(partition)).get(partition);
        TreeSet<Long> left = new TreeSet<>(wanted.headSet(end));
        left.headSet(consumer.beginningOffsets(List.of(partition)).get(partition)).clear();
        long deadline = System.nanoTime() + options.stall().toNanos();
        while (!left.isEmpty() && System.nanoTime() < deadline) {
            if (left.first() > consumer.position(partition) + SEEK_BEYOND || left.first() < consumer.position(partition)) {
                consumer.seek(partition, left.first());
            }
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                if (left.remove(record.offset())) {
                    found.put(new Place(record.topic(), record.partition(), record.offset()), record);
                }
                // Records that an aborted transaction or a compaction took away do not come any more.
                left.headSet(record.offset()).clear();
            }
        }
    }
}

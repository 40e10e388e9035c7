package millrace.streams.console;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntFunction;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Leaf;
import millrace.integrity.SignedNote;
import millrace.integrity.TreeState;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.RecordModel;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.specific.SpecificDatumReader;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.errors.WakeupException;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Follows the committed leaves and checkpoints of the logs that this process writes, and all alarms, with a consumer of its
/// own: what a stream thread has written may still be aborted, what this consumer reads is in the log.
final class AuditWatch implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(AuditWatch.class);
    private static final Duration POLL = Duration.ofMillis(250);
    private static final Duration ASK = Duration.ofSeconds(10);
    private static final Duration PAUSE = Duration.ofMillis(200);
    private static final Duration PAUSE_AFTER_FAILURE = Duration.ofSeconds(2);
    /// Offsets before the end where the reading of a log begins: transactions' markers take offsets too.
    private static final long BACK = 2L * AuditTailView.MOST_LEAVES;
    private static final long LITTLE_BACK = 64;
    private static final int WIRE_PREFIX = 5;
    private static final int COSIGNATURE_BYTES = Long.BYTES + 64;

    /// What the watch is given.
    ///
    /// @param readers opens a consumer that reads committed records and is in no group
    /// @param schemas the schema of an id in the registry; may fail for the moment
    /// @param owned where each log begins that this process writes now, by partition
    /// @param witnessed told of the time, in milliseconds since the epoch, of a cosignature of such a log
    record Setup(
            Supplier<KafkaConsumer<byte[], byte[]>> readers,
            Console.Topics topics,
            IntFunction<Schema> schemas,
            Supplier<Map<Integer, TreeState>> owned,
            LongConsumer witnessed) {}

    private final Setup setup;
    private final AuditTailView view;
    private final Thread thread;
    private final Map<Integer, Digest> fingerprints = new HashMap<>();
    private final Map<Integer, TreeState> followed = new HashMap<>();
    private final Map<TopicPartition, Long> next = new HashMap<>();
    private volatile boolean closing;
    private volatile @Nullable KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, Long> lowest = new HashMap<>();
    private final Set<String> forbidden = new HashSet<>();
    private boolean failing;
    /// Whether the reader is to go on from `next` instead of where it stands.
    private boolean setBack;

    private AuditWatch(Setup setup, AuditTailView view) {
        this.setup = setup;
        this.view = view;
        this.thread = Thread.ofPlatform().name("millrace-audit-watch").daemon().unstarted(this::run);
    }

    static AuditWatch start(Setup setup, AuditTailView view) {
        AuditWatch watch = new AuditWatch(setup, view);
        watch.thread.start();
        return watch;
    }

    private void run() {
        while (!closing) {
            try (KafkaConsumer<byte[], byte[]> opened = setup.readers().get()) {
                consumer = opened;
                setBack = true;
                follow(opened);
            } catch (WakeupException e) {
                // Closing.
            } catch (TopicAuthorizationException e) {
                if (forbidden.addAll(e.unauthorizedTopics())) {
                    LOG.warn("the console goes without {}: the service may not read it", e.unauthorizedTopics());
                }
                failing = e.unauthorizedTopics().contains(setup.topics().audit());
                pause();
            } catch (KafkaException | IllegalStateException e) {
                if (!failing && !closing) {
                    LOG.warn("the console cannot follow the audit log for now: {}", e.toString());
                }
                failing = true;
                pause();
            }
        }
    }

    private void follow(KafkaConsumer<byte[], byte[]> reader) {
        while (!closing) {
            assign(reader, setup.owned().get());
            if (reader.assignment().isEmpty()) {
                pause();
                continue;
            }
            for (ConsumerRecord<byte[], byte[]> record : reader.poll(POLL)) {
                TopicPartition at = new TopicPartition(record.topic(), record.partition());
                if (record.offset() < next.getOrDefault(at, 0L)) {
                    continue; // polled before the reader went back, or forward
                }
                if (!take(reader, record)) {
                    break;
                }
                next.put(at, record.offset() + 1);
            }
            failing = false;
        }
    }

    private void pause() {
        if (!closing) {
            LockSupport.parkNanos((failing ? PAUSE_AFTER_FAILURE : PAUSE).toNanos());
        }
    }

    /// Follows what the process owns now, from where it was left, or from a little before the end.
    private void assign(KafkaConsumer<byte[], byte[]> reader, Map<Integer, TreeState> owned) {
        if (owned.equals(followed) && !setBack) {
            return;
        }
        followed.keySet().stream().filter(partition -> !owned.containsKey(partition)).forEach(partition -> {
            view.ended(partition);
            lowest.keySet().removeIf(at -> at.partition() == partition);
            next.keySet().removeIf(at -> at.partition() == partition && !at.topic().equals(setup.topics().faults()));
        });
        owned.values().forEach(view::began);
        Set<TopicPartition> all = new HashSet<>();
        owned.keySet().forEach(partition -> {
            all.add(new TopicPartition(setup.topics().audit(), partition));
            all.add(new TopicPartition(setup.topics().checkpoints(), partition));
        });
        all.addAll(partitions(reader, setup.topics().faults()));
        partitions(reader, setup.topics().cosignatures()).stream().filter(at -> owned.containsKey(at.partition())).forEach(all::add);
        all.removeIf(at -> forbidden.contains(at.topic()) && !at.topic().equals(setup.topics().audit()));
        reader.assign(all);
        Map<TopicPartition, Long> begins = reader.beginningOffsets(all, ASK);
        Map<TopicPartition, Long> ends = reader.endOffsets(all, ASK);
        for (TopicPartition at : all) {
            long back = at.topic().equals(setup.topics().audit()) ? BACK : LITTLE_BACK;
            long from = next.computeIfAbsent(at, key -> Math.max(begins.get(at), ends.get(at) - back));
            reader.seek(at, from);
        }
        followed.clear();
        followed.putAll(owned);
        setBack = false;
    }

    private static List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> reader, String topic) {
        return reader.listTopics(ASK).getOrDefault(topic, List.of()).stream()
                .map(info -> new TopicPartition(topic, info.partition())).toList();
    }

    /// @return false where the reader was set back, so that what it has polled is to be polled again
    private boolean take(KafkaConsumer<byte[], byte[]> reader, ConsumerRecord<byte[], byte[]> record) {
        TopicPartition at = new TopicPartition(record.topic(), record.partition());
        byte[] value = record.value();
        try {
            if (record.topic().equals(setup.topics().cosignatures())) {
                witnessed(value);
            } else if (value == null || value.length < WIRE_PREFIX || value[0] != 0) {
                LOG.warn("{}@{}: expected a record of the schema registry's form; the console passes over it", at, record.offset());
            } else if (record.topic().equals(setup.topics().audit())) {
                return leaf(reader, at, record.offset(), value);
            } else if (record.topic().equals(setup.topics().checkpoints())) {
                CheckpointRecord head = decode(value, CheckpointRecord.getClassSchema());
                view.head(head.getOrigin(), new AuditTailView.Head(head.getSize(), head.getNote()));
            } else {
                AlarmRecord alarm = decode(value, AlarmRecord.getClassSchema());
                view.alarm(alarm);
            }
            return true;
        } catch (IOException | NoSuchAlgorithmException | RuntimeException e) {
            // A registry that does not answer now may answer later; what is unreadable is the auditor's to judge.
            if (!failing) {
                LOG.warn("{}@{}: cannot be shown for now: {}", at, record.offset(), e.toString());
            }
            failing = true;
            next.put(at, record.offset());
            setBack = true;
            pause();
            return false;
        }
    }

    private boolean leaf(KafkaConsumer<byte[], byte[]> reader, TopicPartition at, long offset, byte[] value)
            throws IOException, NoSuchAlgorithmException {
        int id = ByteBuffer.wrap(value).getInt(1);
        Schema writer = setup.schemas().apply(id);
        Digest fingerprint = fingerprints.get(id);
        if (fingerprint == null) {
            fingerprint = Digest.of(SchemaNormalization.parsingFingerprint("SHA-256", writer));
            fingerprints.put(id, fingerprint);
        }
        AttestationRecord leaf = decode(value, AttestationRecord.getClassSchema());
        byte[] body = Arrays.copyOfRange(value, WIRE_PREFIX, value.length);
        if (view.take(leaf, Leaf.hash(fingerprint, body), writer, fingerprint, body) != AuditTailView.Taken.MISSED) {
            return true;
        }
        // Many leaves were written between the log's begin and the reader's: back, until they are found.
        long begin = reader.beginningOffsets(List.of(at), ASK).get(at);
        long from = Math.max(begin, lowest.getOrDefault(at, offset) - 8 * BACK);
        if (lowest.getOrDefault(at, Long.MAX_VALUE) <= begin) {
            view.broke(leaf.getLogOrigin());
            return true;
        }
        lowest.put(at, from);
        next.put(at, from);
        setBack = true;
        return false;
    }

    private <T extends SpecificRecord> T decode(byte[] value, Schema reader) throws IOException {
        Schema writer = setup.schemas().apply(ByteBuffer.wrap(value).getInt(1));
        return new SpecificDatumReader<T>(writer, reader, RecordModel.instance())
                .read(null, DecoderFactory.get().binaryDecoder(value, WIRE_PREFIX, value.length - WIRE_PREFIX, null));
    }

    /// The newest time that a witness's line states; the lines are not verified, which is `audit follow`'s business.
    private void witnessed(byte @Nullable [] value) {
        if (value == null) {
            return;
        }
        try {
            for (SignedNote.Signature line : SignedNote.parse(new String(value, StandardCharsets.UTF_8)).signatures()) {
                if (line.signature().length == COSIGNATURE_BYTES) {
                    setup.witnessed().accept(ByteBuffer.wrap(line.signature()).getLong() * 1_000);
                }
            }
        } catch (IntegrityException e) {
            LOG.debug("a record of {} is no note: {}", setup.topics().cosignatures(), e.getMessage());
        }
    }

    @Override
    public void close() {
        closing = true;
        KafkaConsumer<byte[], byte[]> open = consumer;
        if (open != null) {
            open.wakeup();
        }
        LockSupport.unpark(thread);
        try {
            thread.join(5_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

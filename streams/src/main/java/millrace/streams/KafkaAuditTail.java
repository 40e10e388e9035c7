package millrace.streams;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import millrace.integrity.Digest;
import millrace.integrity.Leaf;
import millrace.schemas.AttestationRecord;
import millrace.schemas.RecordModel;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.specific.SpecificDatumReader;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.errors.StreamsException;

/// The audit topic's last leaf, read by a consumer of its own.
///
/// A partition's end is not its last record: markers of transactions take offsets too, and aborted records stay. So
/// the search goes back from the end in growing steps until it meets a committed record.
final class KafkaAuditTail implements AuditTail {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long FIRST_STEP = 16;

    /// Longer than a transaction stays open by default, and the broker takes to end it.
    private static final Duration SETTLE = Duration.ofSeconds(45);

    private static final long UNSETTLED_PAUSE_MS = 20;

    /// Finds the schema that a leaf was written with.
    interface WriterSchemas {
        Schema byId(int id);
    }

    private final KafkaClients clients;
    private final String topic;
    private final WriterSchemas schemas;

    KafkaAuditTail(KafkaClients clients, String topic, WriterSchemas schemas) {
        this.clients = clients;
        this.topic = topic;
        this.schemas = schemas;
    }

    @Override
    public Optional<Last> last(int partition) {
        TopicPartition at = new TopicPartition(topic, partition);
        try (KafkaConsumer<byte[], byte[]> consumer = clients.reader()) {
            consumer.assign(List.of(at));
            long begin = consumer.beginningOffsets(List.of(at)).get(at);
            long end = settledEnd(consumer, at);
            for (long step = FIRST_STEP; begin < end; step *= 8) {
                long from = Math.max(begin, end - step);
                Optional<ConsumerRecord<byte[], byte[]>> found = lastFrom(consumer, at, from, end);
                if (found.isPresent()) {
                    return Optional.of(read(found.get()));
                }
                if (from == begin) {
                    break;
                }
            }
            return Optional.empty();
        }
    }

    /// Where the partition ends once no transaction is open in it.
    ///
    /// What another process has committed becomes visible partition by partition. A leaf whose marker is still on its
    /// way is not seen by `read_committed`, and a log that is continued before it would fork there.
    private long settledEnd(KafkaConsumer<byte[], byte[]> consumer, TopicPartition at) {
        long giveUpAt = System.nanoTime() + SETTLE.toNanos();
        try (KafkaConsumer<byte[], byte[]> all = clients.reader(IsolationLevel.READ_UNCOMMITTED)) {
            while (true) {
                long written = all.endOffsets(List.of(at)).get(at);
                long decided = consumer.endOffsets(List.of(at)).get(at);
                if (decided >= written) {
                    return decided;
                }
                if (System.nanoTime() > giveUpAt) {
                    throw new StreamsException("audit topic " + at + ": a transaction has been open from offset " + decided
                            + " for " + SETTLE.toSeconds() + " s; the log goes on when it is decided");
                }
                Thread.sleep(UNSETTLED_PAUSE_MS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new StreamsException("interrupted while waiting for the audit topic", e);
        }
    }

    private static Optional<ConsumerRecord<byte[], byte[]>> lastFrom(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition at, long from, long end) {
        consumer.seek(at, from);
        ConsumerRecord<byte[], byte[]> last = null;
        while (consumer.position(at) < end) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL).records(at)) {
                last = record;
            }
        }
        return Optional.ofNullable(last);
    }

    private Last read(ConsumerRecord<byte[], byte[]> record) {
        String where = "audit topic " + topic + "/" + record.partition() + "/" + record.offset();
        byte[] value = record.value();
        if (value == null || value.length < 5 || value[0] != 0) {
            throw new AuditLog.DivergedException(where + ": expected an attestation record, got other bytes");
        }
        int id = java.nio.ByteBuffer.wrap(value).getInt(1);
        byte[] body = java.util.Arrays.copyOfRange(value, 5, value.length);
        try {
            Schema writer = schemas.byId(id);
            Digest fingerprint = Digest.of(SchemaNormalization.parsingFingerprint("SHA-256", writer));
            AttestationRecord leaf = new SpecificDatumReader<AttestationRecord>(writer, AttestationRecord.getClassSchema(), RecordModel.instance())
                    .read(null, DecoderFactory.get().binaryDecoder(body, null));
            return new Last(leaf.getLogOrigin(), leaf.getSeq(), Leaf.hash(fingerprint, body));
        } catch (java.io.IOException | java.security.NoSuchAlgorithmException | RuntimeException e) {
            throw new AuditLog.DivergedException(where + ": the last leaf cannot be read: " + e);
        }
    }
}

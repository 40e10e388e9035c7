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
import org.apache.kafka.common.TopicPartition;

/// The audit topic's last leaf, read by a consumer of its own.
///
/// A partition's end is not its last record: markers of transactions take offsets too, and aborted records stay. So
/// the search goes back from the end in growing steps until it meets a committed record.
final class KafkaAuditTail implements AuditTail {
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long FIRST_STEP = 16;

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
            long end = consumer.endOffsets(List.of(at)).get(at);
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

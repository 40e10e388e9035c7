package millrace.integrity.audit;

import java.util.Objects;
import java.util.function.IntFunction;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.WireReader;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.Schemas;
import org.apache.avro.Schema;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;

/// Where the logs of a topic that has lost its oldest leaves may begin.
final class PruneSearch {
    private final WireReader<AttestationRecord> reader;

    private PruneSearch(@Nullable IntFunction<Schema> resolver) {
        reader = new WireReader<>(Schemas.ATTESTATION, resolver);
    }

    /// Says of each partition that its oldest leaves are gone, and hands over its newest PRUNE leaf. One is written each day, so not
    /// much is read for it.
    static void tell(KafkaLog leaves, LogVerifier log, @Nullable IntFunction<Schema> resolver) {
        PruneSearch search = new PruneSearch(resolver);
        for (int partition : leaves.truncated()) {
            log.truncated(partition);
            ConsumerRecord<byte[], byte[]> found = leaves.newest(partition, record -> search.read(record.value()) != null);
            if (found != null) {
                log.pruned(partition, Objects.requireNonNull(search.read(found.value())));
            }
        }
    }

    /// The leaf if it is a PRUNE leaf; what cannot be read is the verifier's to say.
    private @Nullable AttestationRecord read(byte @Nullable [] value) {
        try {
            AttestationRecord record = reader.read(value).record();
            return record.getEvent() == AuditEvent.PRUNE ? record : null;
        } catch (IntegrityException e) {
            return null;
        }
    }
}

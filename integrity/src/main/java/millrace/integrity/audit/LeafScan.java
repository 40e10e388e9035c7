package millrace.integrity.audit;

import java.util.function.Consumer;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.Verdict.Place;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;

/// Reads checkpoints and leaves as they were committed, verifies them, and hands on what passed.
final class LeafScan {
    private static final long PROGRESS_EVERY = 10_000;

    /// Takes what passed, in order of offset within a partition.
    interface Sink {
        /// @param value of the record, as it stands in the topic
        void leaf(Checked leaf, byte[] value);

        default void checkpoint(Place place, byte[] value) {}

        /// @return false to stop reading: what was wanted has been found
        default boolean more() {
            return true;
        }
    }

    private LeafScan() {}

    /// Reads up to the first violation, the end, or where the sink has enough.
    ///
    /// @return the verifier, for its violation and the state of its logs
    static LogVerifier read(AuditOptions options, Sink sink, Consumer<AuditVerifier.Progress> progress) {
        LogVerifier log = new LogVerifier(options.topic(), options.keys(), options.resolver());
        String checkpointsTopic = options.checkpointsTopic();
        if (checkpointsTopic != null) {
            try (KafkaLog heads = new KafkaLog(options.client(), checkpointsTopic, null, options.stall())) {
                heads.takeEnds();
                heads.read(record -> {
                    boolean good = log.checkpoint(place(record), record.value(), options.partition());
                    if (good) {
                        sink.checkpoint(place(record), record.value());
                    }
                    return good;
                });
            }
        }
        try (KafkaLog leaves = new KafkaLog(options.client(), options.topic(), options.partition(), options.stall())) {
            PruneSearch.tell(leaves, log, options.resolver());
            long total = leaves.span();
            leaves.takeEnds();
            leaves.read(record -> {
                @Nullable Checked leaf = log.leaf(record.partition(), record.offset(), record.value());
                if (leaf == null) {
                    return false;
                }
                sink.leaf(leaf, record.value());
                if (log.leaves() % PROGRESS_EVERY == 0) {
                    progress.accept(new AuditVerifier.Progress(
                            log.leaves(), log.checkpoints(), 0, log.leaves(), total));
                }
                return sink.more();
            });
        }
        return log;
    }

    static Place place(ConsumerRecord<byte[], byte[]> record) {
        return new Place(record.topic(), record.partition(), record.offset());
    }
}

package millrace.integrity.audit;

import java.util.List;
import java.util.function.Consumer;
import millrace.integrity.CompletionMatcher;
import millrace.integrity.Cosignatures;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;

/// The topics of an audit, read round by round into what verifies them. In a round completions are read first, then
/// cosignatures, checkpoints and leaves, each up to the end it had at that moment; so the leaves are newer than what
/// speaks of them.
final class AuditReading implements AutoCloseable {
    private static final long PROGRESS_EVERY = 10_000;

    /// Told of what passed.
    interface Listener {
        default void leaf(LogVerifier.Checked leaf) {}

        default void checkpoint(byte[] value) {}
    }

    final LogVerifier log;
    final @Nullable CompletionMatcher matcher;
    final @Nullable Cosignatures cosignatures;
    private final AuditOptions options;
    private final Listener listener;
    private final Consumer<AuditVerifier.Progress> progress;
    private final KafkaLog leaves;
    private final @Nullable KafkaLog cosigned;
    private final @Nullable KafkaLog checkpoints;
    private final @Nullable KafkaLog completions;
    private final long total;
    private long records;

    AuditReading(AuditOptions options, Listener listener, Consumer<AuditVerifier.Progress> progress) {
        this.options = options;
        this.listener = listener;
        this.progress = progress;
        log = new LogVerifier(options.topic(), options.keys(), options.resolver());
        String completionsTopic = options.completionsTopic();
        matcher = completionsTopic == null ? null : new CompletionMatcher(completionsTopic, options.resolver());
        WitnessPolicy witnesses = options.witnesses();
        cosignatures = witnesses == null ? null : new Cosignatures(witnesses.keys(), witnesses.quorum());
        leaves = new KafkaLog(options.client(), options.topic(), options.partition(), options.stall());
        KafkaLog heads = null;
        KafkaLog answers = null;
        try {
            heads = open(options.checkpointsTopic());
            answers = open(completionsTopic);
            cosigned = open(witnesses == null ? null : witnesses.topic());
        } catch (RuntimeException e) {
            close(leaves, heads, answers);
            throw e;
        }
        checkpoints = heads;
        completions = answers;
        total = leaves.span() + (heads == null ? 0 : heads.span()) + (answers == null ? 0 : answers.span());
        PruneSearch.tell(leaves, log, options.resolver());
        if (matcher != null && completions != null) {
            matcher.truncated(completions.truncated());
            matcher.leavesTruncated(leaves.truncated());
        }
    }

    private @Nullable KafkaLog open(@Nullable String topic) {
        return topic == null ? null : new KafkaLog(options.client(), topic, null, options.stall());
    }

    int partitions() {
        return leaves.partitionCount();
    }

    /// Reads what is new in each topic, until the first violation.
    void round() {
        Integer only = options.partition();
        if (completions != null && matcher != null) {
            CompletionMatcher into = matcher;
            completions.takeEnds();
            completions.read(record -> tell(into.completion(place(record), record.value(), only)));
        }
        if (cosigned != null && cosignatures != null && !violated()) {
            Cosignatures into = cosignatures;
            cosigned.takeEnds();
            cosigned.read(record -> tell(into.take(log, place(record), record.value(), only)));
        }
        if (checkpoints != null && !violated()) {
            checkpoints.takeEnds();
            checkpoints.read(record -> tell(checkpoint(record, only)));
        }
        if (!violated()) {
            leaves.takeEnds();
            leaves.read(record -> tell(leaf(record)));
        }
    }

    /// Reads the leaves up to their end, and holds checkpoints that wait for leaves against partitions in which nothing is
    /// pending. A leaf is committed before a checkpoint covers it: what is not there then does not come.
    void decideTails() {
        if (violated()) {
            return;
        }
        List<Integer> decided = leaves.takeEndsAndDecided();
        if (leaves.read(record -> tell(leaf(record)))) {
            decided.forEach(log::complete);
        }
    }

    private boolean checkpoint(ConsumerRecord<byte[], byte[]> record, @Nullable Integer only) {
        boolean good = log.checkpoint(place(record), record.value(), only);
        if (good) {
            listener.checkpoint(record.value());
        }
        return good;
    }

    private boolean leaf(ConsumerRecord<byte[], byte[]> record) {
        LogVerifier.Checked checked = log.leaf(record.partition(), record.offset(), record.value());
        if (checked == null) {
            return false;
        }
        listener.leaf(checked);
        return matcher == null || matcher.leaf(checked);
    }

    private boolean tell(boolean goOn) {
        if (++records % PROGRESS_EVERY == 0) {
            tellNow();
        }
        return goOn;
    }

    void tellNow() {
        progress.accept(new AuditVerifier.Progress(
                log.leaves(), log.checkpoints(), matcher == null ? 0 : matcher.completions(), records, total));
    }

    static Place place(ConsumerRecord<byte[], byte[]> record) {
        return new Place(record.topic(), record.partition(), record.offset());
    }

    /// A partition of the audit topic whose end is before where it was: its log was deleted or cut off; null if none is.
    @Nullable Refuted wentBack() {
        return leaves.wentBack();
    }

    /// Whether a log has no leaves here since the oldest records of its partition are gone.
    boolean expired(LogStatus log) {
        return log.size() == 0 && leaves.truncated().contains(log.origin().partition());
    }

    boolean violated() {
        return log.violation() != null || matcher != null && matcher.violation() != null
                || cosignatures != null && cosignatures.violation() != null;
    }

    /// The verdict over everything read so far.
    Verdict verdict() {
        List<Verdict> all = List.of(log.verdict(), matcher == null ? Verdict.VERIFIED : matcher.verdict(),
                cosignatures == null ? Verdict.VERIFIED : cosignatures.verdict(log.logs()));
        return all.stream().filter(Refuted.class::isInstance).findFirst()
                .or(() -> all.stream().filter(verdict -> !verdict.ok()).findFirst())
                .orElse(Verdict.VERIFIED);
    }

    /// Whether time may change the verdict.
    boolean waits(Verdict verdict) {
        if (matcher != null && matcher.waiting() > 0) {
            return true;
        }
        return verdict instanceof Undecided undecided && switch (undecided.code()) {
            case "CHECKPOINT_AHEAD", "CHECKPOINT_MISSING", "LOG_EMPTY", "WITNESS_MISSING" -> true;
            default -> false;
        };
    }

    @Override
    public void close() {
        close(leaves, checkpoints, completions, cosigned);
    }

    private static void close(@Nullable KafkaLog... logs) {
        for (KafkaLog log : logs) {
            if (log != null) {
                log.close();
            }
        }
    }
}

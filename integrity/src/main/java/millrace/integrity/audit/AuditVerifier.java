package millrace.integrity.audit;

import java.util.function.Consumer;
import millrace.integrity.CompletionMatcher;
import millrace.integrity.LogVerifier;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.jspecify.annotations.Nullable;

/// The audit of a cluster: reads completions, checkpoints and leaves as they were committed, and gives a verdict.
///
/// Completions are read first, then checkpoints, then leaves, each up to the end it had at that moment; so the leaves
/// are newer than what speaks of them. Since the parts of a transaction become visible one after the other, what still
/// waits for its other half is given time: the topics' new records are read in the same order until nothing waits or
/// [AuditOptions#settle()] is over.
///
/// Needs memory for each completion until its leaf is read: a few hundred bytes.
public final class AuditVerifier implements AutoCloseable {
    private static final long PAUSE_MS = 250;
    private static final long PROGRESS_EVERY = 10_000;

    /// How far the reading has come.
    ///
    /// @param records that were read, of all topics
    /// @param total of them, about; 0 if it is not known
    public record Progress(long leaves, long checkpoints, long completions, long records, long total) {}

    private final AuditOptions options;
    private final Consumer<Progress> progress;
    private final LogVerifier log;
    private final @Nullable CompletionMatcher matcher;
    private final KafkaLog leaves;
    private final @Nullable KafkaLog checkpoints;
    private final @Nullable KafkaLog completions;
    private final long total;
    private long records;

    private AuditVerifier(AuditOptions options, Consumer<Progress> progress) {
        this.options = options;
        this.progress = progress;
        log = new LogVerifier(options.topic(), options.keys(), options.resolver());
        String completionsTopic = options.completionsTopic();
        matcher = completionsTopic == null ? null : new CompletionMatcher(completionsTopic, options.resolver());
        leaves = new KafkaLog(options.client(), options.topic(), options.partition(), options.stall());
        KafkaLog opened = null;
        try {
            String checkpointsTopic = options.checkpointsTopic();
            opened = checkpointsTopic == null ? null
                    : new KafkaLog(options.client(), checkpointsTopic, null, options.stall());
            checkpoints = opened;
            completions = completionsTopic == null ? null
                    : new KafkaLog(options.client(), completionsTopic, null, options.stall());
            total = leaves.span() + (checkpoints == null ? 0 : checkpoints.span())
                    + (completions == null ? 0 : completions.span());
        } catch (RuntimeException e) {
            leaves.close();
            if (opened != null) {
                opened.close();
            }
            throw e;
        }
    }

    /// Runs an audit to its end.
    ///
    /// @param progress called now and then while reading, on the calling thread
    /// @throws millrace.integrity.IntegrityException codes `AUDIT_TOPIC_MISSING` and `AUDIT_READ_STALLED`
    /// @throws org.apache.kafka.common.KafkaException if the cluster cannot be reached or read
    public static AuditReport run(AuditOptions options, Consumer<Progress> progress) {
        long start = System.nanoTime();
        try (AuditVerifier verifier = new AuditVerifier(options, progress)) {
            Verdict verdict = verifier.verdict();
            return verifier.report(verdict, (System.nanoTime() - start) / 1e9);
        }
    }

    private Verdict verdict() {
        leaves.truncated().forEach(log::truncated);
        if (matcher != null && completions != null) {
            matcher.truncated(completions.truncated());
        }
        readOnce();
        if (matcher != null) {
            matcher.startSettling();
        }
        long deadline = System.nanoTime() + options.settle().toNanos();
        Verdict verdict = current();
        while (!violated() && waits(verdict) && System.nanoTime() < deadline && pause()) {
            readOnce();
            verdict = current();
        }
        tellNow();
        return verdict;
    }

    /// Reads what is new in each topic, until the first violation.
    private void readOnce() {
        Integer only = options.partition();
        if (completions != null && matcher != null) {
            CompletionMatcher into = matcher;
            completions.takeEnds();
            completions.read(record -> tell(into.completion(place(record), record.value(), only)));
        }
        if (checkpoints != null && !violated()) {
            checkpoints.takeEnds();
            checkpoints.read(record -> tell(log.checkpoint(place(record), record.value(), only)));
        }
        if (!violated()) {
            leaves.takeEnds();
            leaves.read(record -> tell(leaf(record)));
        }
    }

    private boolean leaf(ConsumerRecord<byte[], byte[]> record) {
        LogVerifier.Checked checked = log.leaf(record.partition(), record.offset(), record.value());
        return checked != null && (matcher == null || matcher.leaf(checked));
    }

    private boolean tell(boolean goOn) {
        if (++records % PROGRESS_EVERY == 0) {
            tellNow();
        }
        return goOn;
    }

    private void tellNow() {
        progress.accept(new Progress(
                log.leaves(), log.checkpoints(), matcher == null ? 0 : matcher.completions(), records, total));
    }

    private static Place place(ConsumerRecord<byte[], byte[]> record) {
        return new Place(record.topic(), record.partition(), record.offset());
    }

    private boolean violated() {
        return log.violation() != null || matcher != null && matcher.violation() != null;
    }

    /// Whether time may change the verdict.
    private boolean waits(Verdict verdict) {
        if (matcher != null && matcher.waiting() > 0) {
            return true;
        }
        return verdict instanceof Undecided undecided && switch (undecided.code()) {
            case "CHECKPOINT_AHEAD", "CHECKPOINT_MISSING", "LOG_EMPTY" -> true;
            default -> false;
        };
    }

    private boolean pause() {
        try {
            Thread.sleep(PAUSE_MS);
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private Verdict current() {
        Verdict ofLog = log.verdict();
        if (matcher == null || ofLog instanceof Refuted) {
            return ofLog;
        }
        Verdict ofCompletions = matcher.verdict();
        return ofLog.ok() || ofCompletions instanceof Refuted ? ofCompletions : ofLog;
    }

    private AuditReport report(Verdict verdict, double seconds) {
        long tail = log.logs().stream().mapToLong(status -> status.size() - status.checkpointed()).sum();
        long read = matcher == null ? 0 : matcher.completions();
        long matched = matcher == null ? 0 : matcher.matched();
        long expired = matcher == null ? 0 : matcher.expired();
        return new AuditReport(verdict, log.leaves(), log.checkpoints(), read, matched, expired,
                leaves.partitionCount(), tail, !options.keys().isEmpty(), matcher != null, log.logs(), seconds);
    }

    @Override
    public void close() {
        leaves.close();
        if (checkpoints != null) {
            checkpoints.close();
        }
        if (completions != null) {
            completions.close();
        }
    }
}

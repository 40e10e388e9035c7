package millrace.integrity.audit;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import millrace.integrity.Cosignatures;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Verdict;

/// The audit of a cluster: reads completions, checkpoints and leaves as they were committed, and gives a verdict.
///
/// Since the parts of a transaction become visible one after the other, what still waits for its other half is given
/// time: the topics' new records are read in the same order until nothing waits or [AuditOptions#settle()] is over.
///
/// Needs memory for each completion until its leaf is read: a few hundred bytes.
public final class AuditVerifier {
    private static final long PAUSE_MS = 250;

    /// How far the reading has come.
    ///
    /// @param records that were read, of all topics
    /// @param total of them, about; 0 if it is not known
    public record Progress(long leaves, long checkpoints, long completions, long records, long total) {}

    private AuditVerifier() {}

    /// Runs an audit to its end.
    ///
    /// @param progress called now and then while reading, on the calling thread
    /// @throws millrace.integrity.IntegrityException codes `AUDIT_TOPIC_MISSING` and `AUDIT_READ_STALLED`
    /// @throws org.apache.kafka.common.KafkaException if the cluster cannot be reached or read
    public static AuditReport run(AuditOptions options, Consumer<Progress> progress) {
        long start = System.nanoTime();
        try (AuditReading reading = new AuditReading(options, new AuditReading.Listener() {}, progress)) {
            Verdict verdict = verdict(reading, options);
            return report(reading, options, verdict, (System.nanoTime() - start) / 1e9);
        }
    }

    private static Verdict verdict(AuditReading reading, AuditOptions options) {
        reading.round();
        if (reading.matcher != null) {
            reading.matcher.startSettling();
        }
        long deadline = System.nanoTime() + options.settle().toNanos();
        Verdict verdict = reading.verdict();
        while (!reading.violated() && reading.waits(verdict) && System.nanoTime() < deadline && pause()) {
            reading.round();
            verdict = reading.verdict();
        }
        if (verdict instanceof Verdict.Undecided undecided && undecided.code().equals("CHECKPOINT_AHEAD")) {
            reading.decideTails();
            verdict = reading.verdict();
        }
        reading.tellNow();
        return verdict;
    }

    static boolean pause() {
        try {
            Thread.sleep(PAUSE_MS);
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    static AuditReport report(AuditReading reading, AuditOptions options, Verdict verdict, double seconds) {
        List<LogStatus> logs = reading.log.logs();
        long tail = logs.stream().mapToLong(status -> status.size() - status.checkpointed()).sum();
        long read = reading.matcher == null ? 0 : reading.matcher.completions();
        long matched = reading.matcher == null ? 0 : reading.matcher.matched();
        long expired = reading.matcher == null ? 0 : reading.matcher.expired();
        long pruned = reading.matcher == null ? 0 : reading.matcher.pruned();
        Map<String, Long> witnessed = new TreeMap<>();
        Cosignatures cosignatures = reading.cosignatures;
        if (cosignatures != null) {
            logs.forEach(log -> witnessed.put(log.origin().text(), cosignatures.covered(log.origin().text())));
        }
        return new AuditReport(verdict, reading.log.leaves(), reading.log.checkpoints(), read, matched, expired, pruned,
                reading.partitions(), tail, !options.keys().isEmpty(), reading.matcher != null, logs, witnessed,
                reading.log.computedBy(), reading.log.withdrawals(), seconds);
    }
}

package millrace.integrity.audit;

import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import millrace.integrity.CompletionMatcher;
import millrace.integrity.IntegrityException;
import millrace.integrity.Leaf;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.OffsetSet;
import millrace.integrity.Origin;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.WireReader;
import millrace.integrity.audit.Reconciliation.Kind;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Schemas;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/// Joins completions with leaves and names everything that does not match, where [AuditVerifier] names the first. The
/// chain and the signatures are not looked at, so the records of any stretch of time will do.
public final class AuditReconciler {
    /// Leaves are read from so much earlier than completions: the two halves of a transaction carry times of their own.
    private static final Duration MARGIN = Duration.ofMinutes(2);

    private static final long PAUSE_MS = 250;
    private static final long PROGRESS_EVERY = 10_000;

    private final AuditOptions options;
    private final String completionsTopic;
    private final long sinceMs;
    private final Consumer<AuditVerifier.Progress> progress;
    private final WireReader<AttestationRecord> reader;
    private final CompletionMatcher matcher;
    private final Map<Kind, Long> counts = new EnumMap<>(Kind.class);
    private final List<Refuted> findings = new ArrayList<>();
    private final Map<String, OffsetSet> attested = new HashMap<>();
    private final Set<Place> early = new HashSet<>();
    private long total;
    private long leaves;
    private long completions;

    private AuditReconciler(
            AuditOptions options, String completionsTopic, long sinceMs, Consumer<AuditVerifier.Progress> progress) {
        this.options = options;
        this.completionsTopic = completionsTopic;
        this.sinceMs = sinceMs;
        this.progress = progress;
        reader = new WireReader<>(Schemas.ATTESTATION, options.resolver());
        matcher = new CompletionMatcher(completionsTopic, options.resolver(), this::found);
        for (Kind kind : Kind.values()) {
            counts.put(kind, 0L);
        }
    }

    /// @param options names the topics; keys and checkpoints are not used
    /// @param sinceMs takes records from this time on, milliseconds since the epoch; 0 for all
    /// @throws IntegrityException codes `AUDIT_TOPIC_MISSING` and `AUDIT_READ_STALLED`
    public static Reconciliation run(
            AuditOptions options, long sinceMs, Consumer<AuditVerifier.Progress> progress) {
        String completionsTopic = options.completionsTopic();
        if (completionsTopic == null) {
            throw new IllegalArgumentException("reconcile: expected a completions topic");
        }
        long start = System.nanoTime();
        var reconciler = new AuditReconciler(options, completionsTopic, sinceMs, progress);
        reconciler.read();
        reconciler.unmatched().forEach(reconciler::found);
        return new Reconciliation(reconciler.leaves, reconciler.completions, reconciler.matcher.matched(),
                reconciler.matcher.expired(), reconciler.matcher.pruned(), reconciler.counts, reconciler.findings, (System.nanoTime() - start) / 1e9);
    }

    private void read() {
        long earlier = sinceMs == 0 ? 0 : Math.max(1, sinceMs - MARGIN.toMillis());
        try (KafkaLog answers = new KafkaLog(options.client(), completionsTopic, null, options.stall());
                KafkaLog attestations =
                        new KafkaLog(options.client(), options.topic(), options.partition(), options.stall())) {
            matcher.truncated(answers.truncated());
            if (sinceMs == 0) {
                matcher.leavesTruncated(attestations.truncated());
            }
            answers.startAt(sinceMs);
            attestations.startAt(earlier);
            total = answers.span() + attestations.span();
            readOnce(answers, attestations);
            matcher.startSettling();
            long deadline = System.nanoTime() + options.settle().toNanos();
            while (waits() && System.nanoTime() < deadline && pause()) {
                readOnce(answers, attestations);
            }
        }
    }

    private boolean waits() {
        return unmatched().findAny().isPresent();
    }

    private Stream<Refuted> unmatched() {
        return matcher.unmatched().filter(refuted -> !early.contains(refuted.at()));
    }

    private void readOnce(KafkaLog answers, KafkaLog attestations) {
        answers.takeEnds();
        answers.read(record -> {
            matcher.completion(LeafScan.place(record), record.value(), options.partition());
            completions++;
            tell();
            return true;
        });
        attestations.takeEnds();
        attestations.read(record -> {
            leaf(record);
            leaves++;
            tell();
            return true;
        });
    }

    private void leaf(ConsumerRecord<byte[], byte[]> record) {
        Place place = LeafScan.place(record);
        try {
            WireReader.Decoded<AttestationRecord> decoded = reader.read(record.value());
            AttestationRecord leaf = decoded.record();
            Origin origin = Origin.parse(leaf.getLogOrigin());
            if (!origin.topic().equals(options.topic()) || origin.partition() != record.partition()) {
                found(new Refuted("LOG_TOPIC", "leaf: place in log_origin", options.topic() + "-" + record.partition(),
                        origin.topic() + "-" + origin.partition(), place));
            } else if (!attested.computeIfAbsent(origin.text(), key -> new OffsetSet()).add(leaf.getSeq())) {
                found(new Refuted("LOG_SEQ_REPEATED", "leaf %d of log %s".formatted(leaf.getSeq(), origin), "one",
                        "a second", place));
            } else {
                if (record.timestamp() < sinceMs) {
                    early.add(place);
                }
                matcher.leaf(new Checked(leaf, decoded.fingerprint(),
                        Leaf.hashOfWire(decoded.fingerprint(), record.value()), place));
            }
        } catch (IntegrityException e) {
            found(new Refuted("LOG_UNDECODABLE", "leaf", "a readable record of a log", String.valueOf(e.getMessage()), place));
        }
    }

    private void found(Refuted refuted) {
        counts.merge(Kind.of(refuted.code()), 1L, Long::sum);
        if (findings.size() < Reconciliation.MOST_FINDINGS) {
            findings.add(refuted);
        }
    }

    private void tell() {
        long records = leaves + completions;
        if (records % PROGRESS_EVERY == 0) {
            progress.accept(new AuditVerifier.Progress(leaves, 0, completions, records, total));
        }
    }

    private static boolean pause() {
        try {
            Thread.sleep(PAUSE_MS);
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}

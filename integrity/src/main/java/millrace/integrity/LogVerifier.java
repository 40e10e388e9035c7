package millrace.integrity;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.IntFunction;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Hash;
import millrace.schemas.PreviousLog;
import millrace.schemas.Schemas;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;

/// Reads the leaves of an audit topic and the checkpoints over them, and finds the first violation. Pure: it is handed
/// the records' bytes. Not for use by two threads at once.
///
/// Leaves are given per partition in order of offset, as a `read_committed` reader sees them. A checkpoint is given
/// before the leaf that completes its tree, or at most [#RECENT] leaves after it. After the first violation nothing
/// more is looked at.
///
/// Codes of leaves: `LOG_UNDECODABLE`, `LOG_ORIGIN`, `LOG_TOPIC`, `LOG_PARTITION`, `LOG_EPOCH`, `LOG_EPOCH_DECREASED`,
/// `LOG_EPOCH_START`, `LOG_SEQ_REPEATED`, `LOG_SEQ_SKIPPED`, `LOG_PREV_LEAF`, `LOG_DUPLICATE_CAUSE`. Of checkpoints:
/// the codes of [SignedNote] and [Checkpoint], `NOTE_RECORD`, `LOG_ROOT`, `EQUIVOCATION`. Undecided: `LOG_EMPTY`,
/// `LOG_PREFIX_MISSING`, `CHECKPOINT_AHEAD`, `CHECKPOINT_LATE`, `CHECKPOINT_MISSING`.
public final class LogVerifier {
    /// How many leaves back a root can still be told.
    public static final int RECENT = 4096;

    private static final int SIGNATURE_BATCH = 256;

    private final String topic;
    private final List<NoteVerifier> keys;
    private final WireReader<AttestationRecord> leafReader;
    private final WireReader<CheckpointRecord> checkpointReader;
    private final Map<Integer, Origin> newest = new TreeMap<>();
    private final Map<String, LogProgress> logs = new TreeMap<>();
    private final Set<Integer> truncated = new HashSet<>();
    private final List<Unverified> unverified = new ArrayList<>();
    private @Nullable String prefix;
    private @Nullable Refuted violation;
    private long leaves;
    private long checkpoints;

    /// A note whose signatures are yet to be verified. They cost a hundred times as much as the rest of a checkpoint,
    /// so they are verified many at a time, on all processors.
    private record Unverified(SignedNote note, Place place) {}

    /// A leaf that passed.
    public record Checked(AttestationRecord record, Digest hash, Place place) {}

    /// How far one log was read.
    ///
    /// @param size leaves that were verified
    /// @param root of the tree over them; null if the log's beginning is missing
    /// @param checkpointed size of the largest checkpoint that agreed; 0 if there was none
    public record LogStatus(Origin origin, long size, @Nullable Digest root, long checkpointed) {}

    /// @param topic the audit topic's name, as the origins state it
    /// @param keys of the log; empty to leave signatures unchecked
    /// @param resolver see [WireReader]
    public LogVerifier(String topic, Collection<NoteVerifier> keys, @Nullable IntFunction<Schema> resolver) {
        this.topic = topic;
        this.keys = List.copyOf(keys);
        this.leafReader = new WireReader<>(Schemas.ATTESTATION, resolver);
        this.checkpointReader = new WireReader<>(Schemas.CHECKPOINT, resolver);
    }

    /// Demands that every log's name begins with this domain and cluster id; otherwise the first leaf decides.
    public LogVerifier expecting(String domain, String cluster) {
        prefix = new Origin(domain, cluster, topic, 0, 0).prefix();
        return this;
    }

    /// Says that the partition's oldest records are gone, so its first leaf need not be the log's first.
    public void truncated(int partition) {
        truncated.add(partition);
    }

    /// Takes the next leaf of a partition.
    ///
    /// @return the leaf, or null if it or something before it violates the log: see [#violation()]
    public @Nullable Checked leaf(int partition, long offset, byte @Nullable [] value) {
        verifySignatures();
        if (violation != null) {
            return null;
        }
        Place place = new Place(topic, partition, offset);
        if (value == null) {
            violation = new Refuted("LOG_UNDECODABLE", "leaf", "a readable record of a log", "no value", place);
            return null;
        }
        try {
            WireReader.Decoded<AttestationRecord> decoded = leafReader.read(value);
            AttestationRecord record = decoded.record();
            LogProgress log = logOf(record, partition);
            Digest hash = Leaf.hashOfWire(decoded.fingerprint(), value);
            log.append(record, hash);
            leaves++;
            log.settleCheckpoints();
            return new Checked(record, hash, place);
        } catch (Violation e) {
            violation = e.refuted.at() == null ? e.refuted.at(place) : e.refuted;
        } catch (IntegrityException e) {
            String code = e.code().equals("AVRO_DECODE") ? "LOG_UNDECODABLE" : "LOG_ORIGIN";
            violation = new Refuted(code, "leaf", "a readable record of a log", e.getMessage(), place);
        }
        return null;
    }

    private LogProgress logOf(AttestationRecord record, int partition) {
        Origin origin = Origin.parse(record.getLogOrigin());
        require(origin.topic().equals(topic), "LOG_TOPIC", "leaf: topic in log_origin", topic, origin.topic());
        require(origin.partition() == partition, "LOG_PARTITION", "leaf: partition in log_origin",
                partition, origin.partition());
        if (prefix == null) {
            prefix = origin.prefix();
        }
        require(origin.prefix().equals(prefix), "LOG_ORIGIN", "leaf: log_origin", prefix + "/...", origin);
        require(record.getEpoch() == origin.epoch(), "LOG_EPOCH", "leaf: epoch", origin.epoch(), record.getEpoch());
        Origin current = newest.get(partition);
        if (current != null && !current.equals(origin)) {
            require(origin.epoch() > current.epoch(), "LOG_EPOCH_DECREASED", "leaf: epoch",
                    "at least " + current.epoch(), origin.epoch());
            checkEpochStart(record, origin, logs.get(current.text()));
        }
        newest.put(partition, origin);
        LogProgress log = logs.computeIfAbsent(origin.text(), text -> new LogProgress(origin, keys.isEmpty()));
        if (current == null && record.getSeq() > 0 && truncated.contains(partition)) {
            log.startInside(record.getSeq(), Digest.of(record.getPrevLeaf()));
        }
        if (current == null && origin.epoch() > 0) {
            log.startAfterMissing();
        }
        return log;
    }

    private static void checkEpochStart(AttestationRecord record, Origin origin, LogProgress before) {
        require(record.getEvent() == AuditEvent.EPOCH_START && record.getSeq() == 0
                        && origin.epoch() == before.origin.epoch() + 1,
                "LOG_EPOCH_START", "first leaf of a new epoch",
                "EPOCH_START with seq 0 and epoch " + (before.origin.epoch() + 1),
                "%s with seq %d and epoch %d".formatted(record.getEvent(), record.getSeq(), origin.epoch()));
        PreviousLog previous = record.getPreviousLog();
        Digest root = before.root();
        // Where the older log's beginning is missing its root cannot be told; verdict() says so.
        String expected = "%s, size %d, root %s"
                .formatted(before.origin, before.size(), root == null ? "unknown" : root);
        require(previous != null, "LOG_EPOCH_START", "EPOCH_START: previous log", expected, "none");
        Digest stated = Digest.of(previous.getRoot());
        require(previous.getOrigin().equals(before.origin.text()) && previous.getSize() == before.size()
                        && (root == null || stated.isZero() || root.equals(stated)),
                "LOG_EPOCH_START", "EPOCH_START: previous log", expected,
                "%s, size %d, root %s".formatted(previous.getOrigin(), previous.getSize(), stated));
    }

    /// Takes a checkpoint.
    ///
    /// @param place the record that carries it
    /// @return whether nothing is violated so far; signatures may be verified later, at the latest with the next leaf
    public boolean checkpoint(Place place, byte @Nullable [] value) {
        return checkpoint(place, value, null);
    }

    /// Takes a checkpoint, and passes it over if it is of another partition than the given one.
    public boolean checkpoint(Place place, byte @Nullable [] value, @Nullable Integer onlyPartition) {
        if (violation != null) {
            return false;
        }
        try {
            CheckpointRecord record = checkpointReader.read(value).record();
            SignedNote note = SignedNote.parse(record.getNote());
            if (take(place, note, record, onlyPartition)) {
                checkpoints++;
            }
        } catch (Violation e) {
            afterSignatures(e.refuted.at() == null ? e.refuted.at(place) : e.refuted);
        } catch (IntegrityException e) {
            afterSignatures(ofCheckpoint(e, place));
        }
        return violation == null;
    }

    /// Takes a checkpoint that someone kept, or cosigned, outside the checkpoints topic: it must be of these logs too.
    ///
    /// @return whether nothing is violated so far
    public boolean note(Place place, SignedNote note, @Nullable Integer onlyPartition) {
        if (violation != null) {
            return false;
        }
        try {
            take(place, note, null, onlyPartition);
        } catch (Violation e) {
            afterSignatures(e.refuted.at() == null ? e.refuted.at(place) : e.refuted);
        } catch (IntegrityException e) {
            afterSignatures(ofCheckpoint(e, place));
        }
        return violation == null;
    }

    /// @return false if it is of a partition that is not looked at
    private boolean take(Place place, SignedNote note, @Nullable CheckpointRecord record, @Nullable Integer only) {
        if (!keys.isEmpty()) {
            unverified.add(new Unverified(note, place));
        }
        Checkpoint checkpoint = Checkpoint.parse(note.text());
        Origin origin = originOf(checkpoint);
        if (record != null) {
            checkRecord(record, checkpoint, origin);
        }
        if (only != null && origin.partition() != only) {
            return false;
        }
        LogProgress log = logs.computeIfAbsent(origin.text(), text -> new LogProgress(origin, keys.isEmpty()));
        log.add(checkpoint.size(), checkpoint.root(), place);
        log.settleCheckpoints();
        if (unverified.size() >= SIGNATURE_BATCH) {
            verifySignatures();
        }
        return true;
    }

    private static Refuted ofCheckpoint(IntegrityException e, Place place) {
        String code = e.code().equals("AVRO_DECODE") ? "NOTE_RECORD" : e.code();
        return new Refuted(code, "checkpoint", "a signed checkpoint of a log", e.getMessage(), place);
    }

    /// Takes a violation that was found without the signatures: a wrong one before it, or on it, counts first.
    private void afterSignatures(Refuted found) {
        verifySignatures();
        violation = violation == null ? found : violation;
    }

    private void verifySignatures() {
        if (unverified.isEmpty()) {
            return;
        }
        Refuted first = unverified.parallelStream().map(this::verifySignature).flatMap(Optional::stream).findFirst()
                .orElse(null);
        unverified.clear();
        violation = violation == null ? first : violation;
    }

    private Optional<Refuted> verifySignature(Unverified checkpoint) {
        try {
            checkpoint.note.verify(keys);
            return Optional.empty();
        } catch (IntegrityException e) {
            return Optional.of(ofCheckpoint(e, checkpoint.place));
        }
    }

    private Origin originOf(Checkpoint checkpoint) {
        try {
            Origin origin = Origin.parse(checkpoint.origin());
            require(origin.topic().equals(topic) && (prefix == null || origin.prefix().equals(prefix)),
                    "NOTE_ORIGIN", "checkpoint: origin", (prefix == null ? topic : prefix) + "/...", origin);
            prefix = origin.prefix();
            return origin;
        } catch (IntegrityException e) {
            throw new IntegrityException("NOTE_ORIGIN", e.getMessage(), e);
        }
    }

    private static void checkRecord(CheckpointRecord record, Checkpoint checkpoint, Origin origin) {
        require(record.getOrigin().equals(checkpoint.origin()) && record.getPartition() == origin.partition()
                        && record.getSize() == checkpoint.size() && checkpoint.root().matches(record.getRoot()),
                "NOTE_RECORD", "checkpoint: fields beside the note",
                "%s, partition %d, size %d, root %s"
                        .formatted(checkpoint.origin(), origin.partition(), checkpoint.size(), checkpoint.root()),
                "%s, partition %d, size %d, root %s".formatted(Shown.text(record.getOrigin()), record.getPartition(),
                        record.getSize(), hex(record.getRoot())));
    }

    private static String hex(Hash hash) {
        return Digest.of(hash).hex();
    }

    /// The first violation, null while there is none.
    public @Nullable Refuted violation() {
        verifySignatures();
        return violation;
    }

    /// The verdict over everything that was given so far.
    public Verdict verdict() {
        verifySignatures();
        if (violation != null) {
            return violation;
        }
        List<Undecided> open = new ArrayList<>();
        logs.values().forEach(log -> log.addOpenPoints(open));
        if (!open.isEmpty()) {
            return open.getFirst();
        }
        return leaves > 0 ? Verdict.VERIFIED
                : new Undecided("LOG_EMPTY", "topic %s holds no leaves; is it the audit topic?".formatted(topic));
    }

    public long leaves() {
        return leaves;
    }

    public long checkpoints() {
        return checkpoints;
    }

    /// Every log that a leaf or a checkpoint named, in order of its name.
    public List<LogStatus> logs() {
        return logs.values().stream().map(LogProgress::status).toList();
    }

    /// A violation on its way out of the checks; without a stack trace, for it is a value.
    static final class Violation extends RuntimeException {
        private static final long serialVersionUID = 1L;
        final transient Refuted refuted;

        Violation(Refuted refuted) {
            super(refuted.code(), null, false, false);
            this.refuted = refuted;
        }
    }

    static void require(boolean condition, String code, String what, Object expected, Object got) {
        if (!condition) {
            throw new Violation(new Refuted(code, what, expected, got));
        }
    }
}

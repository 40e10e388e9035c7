package millrace.integrity;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
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
import millrace.schemas.PruneMark;
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
/// `LOG_EPOCH_START`, `LOG_SEQ_REPEATED`, `LOG_SEQ_SKIPPED`, `LOG_PREV_LEAF`, `LOG_DUPLICATE_CAUSE`, `LOG_PRUNE`,
/// `LOG_RETRACT`, `LOG_KEY_ROTATION`. Of checkpoints: the codes of [SignedNote] and [Checkpoint], `NOTE_RECORD`, `LOG_ROOT`,
/// `EQUIVOCATION`, `LOG_KEY_ROTATION`, `LOG_KEY_RETIRED`. Undecided: `LOG_EMPTY`,
/// `LOG_PREFIX_MISSING`, `CHECKPOINT_AHEAD`, `CHECKPOINT_LATE`, `CHECKPOINT_MISSING`.
public final class LogVerifier {
    /// How many leaves back a root can still be told.
    public static final int RECENT = 4096;

    private final String topic;
    private final List<NoteVerifier> keys;
    private final WireReader<AttestationRecord> leafReader;
    private final WireReader<CheckpointRecord> checkpointReader;
    private final Map<Integer, Origin> newest = new TreeMap<>();
    private final Map<Integer, Current> current = new HashMap<>();

    /// The log of a partition's last leaf.
    private record Current(String origin, int epoch, LogProgress log) {}

    private final Map<String, LogProgress> logs = new TreeMap<>();
    private final Set<Integer> truncated = new HashSet<>();
    private final Map<Integer, AttestationRecord> prunings = new HashMap<>();
    private final Map<Integer, Origin> beginnings = new HashMap<>();
    private final SignatureBatch signatures = new SignatureBatch();
    private final Computed computed = new Computed();
    private @Nullable String prefix;
    private @Nullable Refuted violation;
    private long leaves;
    private long checkpoints;

    /// A leaf that passed.
    ///
    /// @param fingerprint of the schema that it was written under
    public record Checked(AttestationRecord record, Digest fingerprint, Digest hash, Place place) {}

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

    /// Hands over a PRUNE leaf of a truncated partition before the partition's first leaf: the newest of the topic, or any that
    /// lets the log begin no earlier than the first leaf that is left. It need not have been verified: it comes again in its
    /// place, and what it says of the tree is shown by the signed roots of later leaves.
    public void pruned(int partition, AttestationRecord leaf) {
        prunings.put(partition, leaf);
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
            computed.take(record);
            log.remark(record, place);
            log.settleCheckpoints();
            return new Checked(record, decoded.fingerprint(), hash, place);
        } catch (Violation e) {
            violation = e.refuted.at() == null ? e.refuted.at(place) : e.refuted;
        } catch (IntegrityException e) {
            String code = e.code().equals("AVRO_DECODE") ? "LOG_UNDECODABLE" : "LOG_ORIGIN";
            violation = new Refuted(code, "leaf", "a readable record of a log", e.getMessage(), place);
        }
        return null;
    }

    /// The log of the leaf. Nearly every leaf is of the log of the one before it, whose place was checked then.
    private LogProgress logOf(AttestationRecord record, int partition) {
        Current last = current.get(partition);
        if (last != null && last.epoch == record.getEpoch() && last.origin.equals(record.getLogOrigin())) {
            return last.log;
        }
        LogProgress log = place(record, partition);
        current.put(partition, new Current(record.getLogOrigin(), record.getEpoch(), log));
        return log;
    }

    private LogProgress place(AttestationRecord record, int partition) {
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
        LogProgress log = logs.computeIfAbsent(origin.text(), text -> new LogProgress(origin, keys, signatures));
        if (current != null && !current.equals(origin)) {
            log.keys.follow(logs.get(current.text()).keys);
        }
        if (current == null && record.getSeq() > 0 && truncated.contains(partition)) {
            PruneMark mark = prunedAt(partition, record);
            log.startInside(record.getSeq(), Digest.of(record.getPrevLeaf()), mark);
            if (mark != null) {
                logs.values().removeIf(older -> isOver(older.origin, origin)); // whose leaves are gone
                beginnings.put(partition, origin);
            }
        }
        if (current == null && origin.epoch() > 0) {
            log.startAfterMissing();
        }
        return log;
    }

    /// Whether the log is of an earlier epoch than the one that a partition was allowed to begin with.
    private static boolean isOver(Origin log, @Nullable Origin beginning) {
        return beginning != null && log.partition() == beginning.partition() && log.epoch() < beginning.epoch();
    }

    private @Nullable PruneMark prunedAt(int partition, AttestationRecord first) {
        AttestationRecord pruning = prunings.get(partition);
        PruneMark mark = pruning == null || pruning.getEvent() != AuditEvent.PRUNE ? null : pruning.getPrune();
        boolean fits = mark != null && pruning.getLogOrigin().equals(first.getLogOrigin()) && mark.getMinIndex() >= first.getSeq()
                && mark.getRoots().size() == Long.bitCount(mark.getMinIndex());
        return fits ? mark : null;
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

    /// Says that every leaf that was ever committed to the partition has been handed over: what a signed checkpoint covers
    /// beyond them was removed.
    public void complete(int partition) {
        if (violation != null) {
            return;
        }
        for (LogProgress log : logs.values()) {
            Refuted cutOff = log.origin.partition() == partition ? log.cutOff() : null;
            if (cutOff != null) {
                afterSignatures(cutOff);
                return;
            }
        }
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
            afterSignatures(SignatureBatch.refuted(e, place));
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
            afterSignatures(SignatureBatch.refuted(e, place));
        }
        return violation == null;
    }

    /// @return false if it is of a partition that is not looked at
    private boolean take(Place place, SignedNote note, @Nullable CheckpointRecord record, @Nullable Integer only) {
        if (keys.stream().anyMatch(key -> !note.of(key).isEmpty())) {
            signatures.add(note, place, keys);
        }
        Checkpoint checkpoint = Checkpoint.parse(note.text());
        Origin origin = originOf(checkpoint);
        if (record != null) {
            checkRecord(record, checkpoint, origin);
        }
        if (only != null && origin.partition() != only || isOver(origin, beginnings.get(origin.partition()))) {
            return false;
        }
        LogProgress log = logs.computeIfAbsent(origin.text(), text -> new LogProgress(origin, keys, signatures));
        log.add(checkpoint, note, place);
        log.settleCheckpoints();
        if (signatures.isFull()) {
            verifySignatures();
        }
        return true;
    }

    /// Takes a violation that was found without the signatures: a wrong one before it, or on it, counts first.
    private void afterSignatures(Refuted found) {
        verifySignatures();
        violation = violation == null ? found : violation;
    }

    private void verifySignatures() {
        Refuted first = signatures.verify();
        violation = violation == null ? first : violation;
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
        Refuted unknown = logs.values().stream().map(LogProgress::unknownSigner).filter(Objects::nonNull).findFirst().orElse(null);
        if (unknown != null) {
            return unknown;
        }
        List<Undecided> open = new ArrayList<>();
        logs.values().forEach(log -> log.addOpenPoints(open));
        if (!open.isEmpty()) {
            return open.getFirst();
        }
        return leaves > 0 ? Verdict.VERIFIED
                : new Undecided("LOG_EMPTY", "topic %s holds no leaves; is it the audit topic?".formatted(topic));
    }

    /// The leaves that later leaves withdraw or put in doubt, log by log.
    public List<Withdrawal> withdrawals() {
        return logs.values().stream().flatMap(log -> log.withdrawals().stream()).toList();
    }

    /// Answers by backend and device, as their leaves name them.
    public Map<String, Long> computedBy() {
        return computed.answers();
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

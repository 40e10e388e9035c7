package millrace.integrity;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.LogVerifier.Violation;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.PruneMark;
import org.jspecify.annotations.Nullable;

/// How far [LogVerifier] has come in one log: its tree, the checkpoints that wait for leaves, the prompts it answered.
final class LogProgress {
    final Origin origin;
    final LogKeyring keys;
    private final LogRemarks remarks;
    private final SignatureBatch signatures;
    private final ArrayDeque<MerkleFrontier> recent = new ArrayDeque<>();
    private final TreeMap<Long, List<Head>> waiting = new TreeMap<>(); // several of one size only by keys not known yet
    private final TreeMap<Long, Head> agreed = new TreeMap<>(); // those within the recent leaves, for EQUIVOCATION
    private final Map<Input, OffsetSet> answered = new HashMap<>();

    /// A partition of prompts.
    private record Input(String topic, int partition) {}

    private MerkleFrontier tree = MerkleFrontier.EMPTY;
    private Digest lastLeaf = Digest.ZERO;
    private long skipped; // leaves before the first that was seen
    private @Nullable PruneMark pruned; // from where the tree is known, until that leaf has come
    private long begins; // count of leaves that the tree was taken over with
    private boolean predecessorMissing;
    private long checkpointed;
    private @Nullable Head late;

    /// A checkpoint's claim.
    ///
    /// @param note null where no keys are known
    private record Head(long size, Digest root, Place place, @Nullable SignedNote note) {}

    /// @param given keys that are trusted; without any, checkpoints are not asked for
    /// @param signatures takes those that are to be verified
    LogProgress(Origin origin, List<NoteVerifier> given, SignatureBatch signatures) {
        this.origin = origin;
        this.keys = new LogKeyring(given);
        this.remarks = new LogRemarks(origin, keys);
        this.signatures = signatures;
        recent.add(tree);
    }

    long size() {
        return skipped + tree.size();
    }

    /// Root over all leaves; null if the log's beginning is missing.
    @Nullable Digest root() {
        return skipped == 0 ? tree.root() : null;
    }

    /// Begins at a later leaf: sequence and chain are checked from there, roots only once the tree is known.
    ///
    /// @param mark says what the tree is at a leaf that is still to come; null if nothing does
    void startInside(long seq, Digest before, @Nullable PruneMark mark) {
        skipped = seq;
        lastLeaf = before;
        pruned = mark;
    }

    /// Takes over the tree that a PRUNE leaf states, where that begins. What it states need not be believed: only with the
    /// right hashes do the roots over all later leaves come out as they were signed. And the leaf after it names the one before
    /// by its hash, and so all that are left.
    private void takeOverTree() {
        if (pruned == null || pruned.getMinIndex() != size()) {
            return;
        }
        Digest before = Digest.of(pruned.getPrevLeaf());
        LogVerifier.require(lastLeaf.equals(before), "LOG_PRUNE", "leaf: prev_leaf, as PRUNE states it", lastLeaf, before);
        tree = MerkleFrontier.of(pruned);
        begins = tree.size();
        skipped = 0;
        pruned = null;
        predecessorMissing = false;
        recent.clear();
        recent.add(tree);
        waiting.headMap(begins).clear(); // over leaves that are gone
    }

    /// The log follows another whose leaves were not seen.
    void startAfterMissing() {
        predecessorMissing = true;
    }

    void append(AttestationRecord record, Digest hash) {
        long seq = record.getSeq();
        if (seq != size()) {
            throw new Violation(new Refuted(seq < size() ? "LOG_SEQ_REPEATED" : "LOG_SEQ_SKIPPED", "leaf: seq",
                    Long.toString(size()), Long.toString(seq)));
        }
        if (!lastLeaf.matches(record.getPrevLeaf())) {
            throw new Violation(new Refuted("LOG_PREV_LEAF", "leaf: prev_leaf", lastLeaf.toString(),
                    Digest.of(record.getPrevLeaf()).toString()));
        }
        boolean answers = record.getEvent() == AuditEvent.INFERENCE || record.getEvent() == AuditEvent.REFUSED;
        if (answers && record.getInOffset() >= 0 && !answered(record).add(record.getInOffset())) {
            throw new Violation(new Refuted("LOG_DUPLICATE_CAUSE", "leaf: prompt record", "one leaf",
                    "a second for %s-%d@%d".formatted(Shown.text(record.getInTopic()), record.getInPartition(),
                            record.getInOffset())));
        }
        takeOverTree();
        tree = tree.append(hash);
        lastLeaf = hash;
        recent.addLast(tree);
        if (recent.size() > LogVerifier.RECENT) {
            recent.removeFirst();
        }
    }

    private OffsetSet answered(AttestationRecord record) {
        return answered.computeIfAbsent(new Input(record.getInTopic(), record.getInPartition()), key -> new OffsetSet());
    }

    /// Takes what a leaf that was appended says of the log.
    void remark(AttestationRecord record, Place place) {
        remarks.take(record, place, size -> skipped == 0 ? at(size) : null);
    }

    List<Withdrawal> withdrawals() {
        return remarks.withdrawals();
    }

    void add(Checkpoint checkpoint, SignedNote note, Place place) {
        long size = checkpoint.size();
        Digest root = checkpoint.root();
        Head head = new Head(size, root, place, keys.isEmpty() ? null : note);
        Head same = waiting.containsKey(size) ? waiting.get(size).getFirst() : agreed.get(size);
        if (same != null && !same.root.equals(root)) {
            // Only what is signed is evidence against the signer.
            for (Head one : List.of(same, head)) {
                if (one.note != null) {
                    keys.requireKnown(one.note, one.place);
                }
            }
            throw new Violation(new Refuted("EQUIVOCATION",
                    "two checkpoints of size %d of log %s, the other at %s".formatted(size, origin, same.place),
                    same.root.hex(), root.hex(), place));
        }
        if (same == null || !keys.knows(note)) {
            waiting.computeIfAbsent(size, key -> new ArrayList<>(1)).add(head);
        }
    }

    /// Compares every waiting checkpoint whose leaves are here.
    void settleCheckpoints() {
        while (!waiting.isEmpty() && waiting.firstKey() <= size() && skipped == 0) {
            List<Head> heads = waiting.pollFirstEntry().getValue();
            heads.forEach(this::settle);
        }
    }

    private void settle(Head head) {
        MerkleFrontier then = at(head.size);
        if (then == null) {
            late = late == null ? head : late;
        } else {
            if (!then.root().equals(head.root)) {
                throw new Violation(new Refuted("LOG_ROOT", "checkpoint of size %d of log %s: root"
                        .formatted(head.size, origin), then.root().hex(), head.root.hex(), head.place));
            }
            checkpointed = Math.max(checkpointed, head.size);
            agreed.put(head.size, head);
            agreed.headMap(size() - LogVerifier.RECENT).clear();
        }
        if (head.note != null) {
            keys.settle(head.size, head.note, head.place, signatures);
        }
    }

    /// The first checkpoint that waits for its leaves and that no key of this log can have signed.
    @Nullable Refuted unknownSigner() {
        for (Head head : waiting.values().stream().flatMap(List::stream).toList()) {
            // Without the tree no checkpoint can vouch for a new key.
            if (head.note != null && !(skipped > 0 ? keys.mayKnow(head.note) : keys.knows(head.note))) {
                return keys.unknown(head.note, head.place);
            }
        }
        return null;
    }

    /// What it is if no more leaves come: a signed checkpoint that covers leaves which are not here; null where there is none.
    @Nullable Refuted cutOff() {
        if (skipped > 0) {
            return null;
        }
        for (Head head : waiting.descendingMap().values().stream().flatMap(List::stream).toList()) {
            if (head.note != null && keys.hasSigned(head.note)) {
                return new Refuted("LOG_CUT_OFF", "leaves of log %s, in a partition without open transactions".formatted(origin),
                        "the %d that this signed checkpoint covers".formatted(head.size), Long.toString(size()), head.place);
            }
        }
        return null;
    }

    private @Nullable MerkleFrontier at(long size) {
        if (size == tree.size()) {
            return tree;
        }
        return recent.stream().filter(frontier -> frontier.size() == size).findFirst().orElse(null);
    }

    void addOpenPoints(List<Undecided> open) {
        if (skipped > 0) {
            open.add(new Undecided("LOG_PREFIX_MISSING",
                    "log %s: its first %d leaves are no longer in the topic, so roots cannot be computed; sequence and "
                            .formatted(origin, skipped) + "chain of the %d others hold".formatted(tree.size())));
        } else if (predecessorMissing) {
            open.add(new Undecided("LOG_PREFIX_MISSING",
                    "log %s: the logs of the epochs before it are not in the topic".formatted(origin)));
        } else if (!waiting.isEmpty()) {
            Head head = waiting.lastEntry().getValue().getFirst();
            open.add(new Undecided("CHECKPOINT_AHEAD",
                    "log %s: the checkpoint at %s covers %d leaves, %d are here; they are late, or were removed"
                            .formatted(origin, head.place, head.size, size())));
        } else if (late != null) {
            open.add(new Undecided("CHECKPOINT_LATE",
                    "log %s: the checkpoint at %s came more than %d leaves after its last leaf; verify once more"
                            .formatted(origin, late.place, LogVerifier.RECENT)));
        } else if (begins > 0 && checkpointed == 0) {
            open.add(new Undecided("LOG_PREFIX_MISSING",
                    "log %s: its first leaves are no longer in the topic, and no checkpoint shows yet that the tree of %d leaves, from"
                            .formatted(origin, begins) + " which a PRUNE leaf lets it begin, is theirs"));
        } else if (!keys.isEmpty() && checkpointed == 0 && size() > 0) {
            open.add(new Undecided("CHECKPOINT_MISSING",
                    "log %s: none of its %d leaves is covered by a signed checkpoint".formatted(origin, size())));
        }
    }

    LogStatus status() {
        return new LogStatus(origin, size(), root(), checkpointed);
    }
}

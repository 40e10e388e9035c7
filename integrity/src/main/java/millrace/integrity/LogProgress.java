package millrace.integrity;

import java.util.ArrayDeque;
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
import org.jspecify.annotations.Nullable;

/// How far [LogVerifier] has come in one log: its tree, the checkpoints that wait for leaves, the prompts it answered.
final class LogProgress {
    final Origin origin;
    private final boolean unsigned;
    private final ArrayDeque<MerkleFrontier> recent = new ArrayDeque<>();
    private final TreeMap<Long, Head> waiting = new TreeMap<>();
    private final TreeMap<Long, Head> agreed = new TreeMap<>(); // those within the recent leaves, for EQUIVOCATION
    private final Map<String, OffsetSet> answered = new HashMap<>();
    private MerkleFrontier tree = MerkleFrontier.EMPTY;
    private Digest lastLeaf = Digest.ZERO;
    private long skipped; // leaves before the first that was seen
    private boolean predecessorMissing;
    private long checkpointed;
    private @Nullable Head late;

    /// A checkpoint's claim.
    private record Head(long size, Digest root, Place place) {}

    /// @param unsigned whether no key is known, so that checkpoints are not asked for
    LogProgress(Origin origin, boolean unsigned) {
        this.origin = origin;
        this.unsigned = unsigned;
        recent.add(tree);
    }

    long size() {
        return skipped + tree.size();
    }

    /// Root over all leaves; null if the log's beginning is missing.
    @Nullable Digest root() {
        return skipped == 0 ? tree.root() : null;
    }

    /// Begins at a later leaf: sequence and chain are checked from there, roots cannot be.
    void startInside(long seq, Digest before) {
        skipped = seq;
        lastLeaf = before;
    }

    /// The log follows another whose leaves were not seen.
    void startAfterMissing() {
        predecessorMissing = true;
    }

    void append(AttestationRecord record, Digest hash) {
        long seq = record.getSeq();
        LogVerifier.require(seq >= size(), "LOG_SEQ_REPEATED", "leaf: seq", size(), seq);
        LogVerifier.require(seq == size(), "LOG_SEQ_SKIPPED", "leaf: seq", size(), seq);
        LogVerifier.require(lastLeaf.matches(record.getPrevLeaf()), "LOG_PREV_LEAF", "leaf: prev_leaf",
                lastLeaf, Digest.of(record.getPrevLeaf()));
        boolean answers = record.getEvent() == AuditEvent.INFERENCE || record.getEvent() == AuditEvent.REFUSED;
        if (answers && record.getInOffset() >= 0) {
            boolean first = answered
                    .computeIfAbsent(record.getInTopic() + "-" + record.getInPartition(), key -> new OffsetSet())
                    .add(record.getInOffset());
            LogVerifier.require(first, "LOG_DUPLICATE_CAUSE", "leaf: prompt record", "one leaf",
                    "a second for %s-%d@%d".formatted(Shown.text(record.getInTopic()), record.getInPartition(),
                            record.getInOffset()));
        }
        tree = tree.append(hash);
        lastLeaf = hash;
        recent.addLast(tree);
        if (recent.size() > LogVerifier.RECENT) {
            recent.removeFirst();
        }
    }

    void add(long size, Digest root, Place place) {
        Head head = new Head(size, root, place);
        Head same = waiting.containsKey(size) ? waiting.get(size) : agreed.get(size);
        if (same != null && !same.root.equals(root)) {
            throw new Violation(new Refuted("EQUIVOCATION",
                    "two checkpoints of size %d of log %s, the other at %s".formatted(size, origin, same.place),
                    same.root.hex(), root.hex(), place));
        }
        if (same == null) {
            waiting.put(size, head);
        }
    }

    /// Compares every waiting checkpoint whose leaves are here.
    void settleCheckpoints() {
        while (!waiting.isEmpty() && waiting.firstKey() <= size() && skipped == 0) {
            Head head = waiting.pollFirstEntry().getValue();
            MerkleFrontier then = at(head.size);
            if (then == null) {
                late = late == null ? head : late;
                continue;
            }
            if (!then.root().equals(head.root)) {
                throw new Violation(new Refuted("LOG_ROOT", "checkpoint of size %d of log %s: root"
                        .formatted(head.size, origin), then.root().hex(), head.root.hex(), head.place));
            }
            checkpointed = Math.max(checkpointed, head.size);
            agreed.put(head.size, head);
            agreed.headMap(size() - LogVerifier.RECENT).clear();
        }
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
            Head head = waiting.lastEntry().getValue();
            open.add(new Undecided("CHECKPOINT_AHEAD",
                    "log %s: the checkpoint at %s covers %d leaves, %d are here; they are late, or were removed"
                            .formatted(origin, head.place, head.size, size())));
        } else if (late != null) {
            open.add(new Undecided("CHECKPOINT_LATE",
                    "log %s: the checkpoint at %s came more than %d leaves after its last leaf; verify once more"
                            .formatted(origin, late.place, LogVerifier.RECENT)));
        } else if (!unsigned && checkpointed == 0 && size() > 0) {
            open.add(new Undecided("CHECKPOINT_MISSING",
                    "log %s: none of its %d leaves is covered by a signed checkpoint".formatted(origin, size())));
        }
    }

    LogStatus status() {
        return new LogStatus(origin, size(), root(), checkpointed);
    }
}

package millrace.integrity;

import java.util.ArrayList;
import java.util.List;
import millrace.integrity.LogVerifier.Violation;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.PruneMark;
import millrace.schemas.SuspectRange;
import org.jspecify.annotations.Nullable;

/// What the leaves of one log that are no answers say of it: which key signs, where it may begin, which leaves are withdrawn.
final class LogRemarks {
    private final Origin origin;
    private final LogKeyring keys;
    private final List<Withdrawal> withdrawals = new ArrayList<>();
    private long prunedTo;

    LogRemarks(Origin origin, LogKeyring keys) {
        this.origin = origin;
        this.keys = keys;
    }

    List<Withdrawal> withdrawals() {
        return withdrawals;
    }

    /// Takes a leaf that was appended.
    ///
    /// @param history gives the log's tree at a size, as far back as it is known
    void take(AttestationRecord record, Place place, History history) {
        switch (record.getEvent()) {
            case KEY_ROTATION -> keys.rotate(record.getSeq(), newKey(record), false);
            case EPOCH_START -> {
                if (record.getNewKey() != null) {
                    keys.rotate(record.getSeq(), newKey(record), true);
                }
            }
            case PRUNE -> prune(record, history);
            case RETRACT, FAULT, CANARY -> withdraw(record, place);
            default -> { }
        }
    }

    /// The log as it was.
    interface History {
        /// The tree of that size; null if it is too long ago.
        @Nullable MerkleFrontier at(long size);
    }

    private static NoteVerifier newKey(AttestationRecord record) {
        String text = record.getNewKey();
        try {
            if (text != null) {
                NoteVerifier key = NoteVerifier.parse(text);
                LogVerifier.require(key.kind() == NoteKey.Kind.LOG, "LOG_KEY_ROTATION", "leaf: new_key", "the public key of a log",
                        "that of a witness");
                return key;
            }
        } catch (IntegrityException e) {
            throw new Violation(new Refuted("LOG_KEY_ROTATION", "leaf: new_key", "the public key of a log", e.getMessage()));
        }
        throw new Violation(new Refuted("LOG_KEY_ROTATION", "leaf: new_key", "the public key of a log", "none"));
    }

    private void prune(AttestationRecord record, History history) {
        PruneMark mark = record.getPrune();
        LogVerifier.require(mark != null, "LOG_PRUNE", "leaf: prune", "where the log may begin", "nothing");
        long index = mark.getMinIndex();
        LogVerifier.require(index > prunedTo && index <= record.getSeq(), "LOG_PRUNE", "leaf: prune: min_index",
                "more than %d and at most %d".formatted(prunedTo, record.getSeq()), index);
        LogVerifier.require(mark.getRoots().size() == Long.bitCount(index), "LOG_PRUNE", "leaf: prune: roots",
                Long.bitCount(index), mark.getRoots().size());
        MerkleFrontier then = history.at(index);
        MerkleFrontier stated = MerkleFrontier.of(mark);
        LogVerifier.require(then == null || then.equals(stated), "LOG_PRUNE", "leaf: prune: tree of " + index + " leaves",
                then == null ? "" : then.root(), stated.root());
        prunedTo = index;
    }

    private void withdraw(AttestationRecord record, Place place) {
        SuspectRange range = record.getSuspect();
        LogVerifier.require(range != null || record.getEvent() != AuditEvent.RETRACT, "LOG_RETRACT", "leaf: suspect",
                "the leaves that are withdrawn", "none");
        if (range != null) {
            checkRange(record, range);
        }
        if (range != null && range.getFromSeq() <= range.getToSeq()) {
            withdrawals.add(new Withdrawal(record.getEvent(), range.getOrigin(), range.getFromSeq(), range.getToSeq(),
                    range.getReason(), record.getDetail(), place));
        }
    }

    private void checkRange(AttestationRecord record, SuspectRange range) {
        Origin of;
        try {
            of = Origin.parse(range.getOrigin());
        } catch (IntegrityException e) {
            throw new Violation(new Refuted("LOG_RETRACT", "leaf: suspect: origin", "the name of a log", e.getMessage()));
        }
        LogVerifier.require(of.prefix().equals(origin.prefix()) && of.partition() == origin.partition() && of.epoch() <= origin.epoch(),
                "LOG_RETRACT", "leaf: suspect: origin", origin + " or an earlier epoch of it", of);
        boolean some = range.getFromSeq() <= range.getToSeq();
        boolean there = !of.equals(origin) || range.getToSeq() < record.getSeq();
        LogVerifier.require(range.getFromSeq() >= 0 && (!some || there), "LOG_RETRACT", "leaf: suspect: leaves",
                "leaves before " + record.getSeq(), range.getFromSeq() + " to " + range.getToSeq());
    }
}

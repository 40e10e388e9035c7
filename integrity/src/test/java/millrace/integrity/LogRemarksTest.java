package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.PruneMark;
import millrace.schemas.Schemas;
import millrace.schemas.SuspectRange;
import org.junit.jupiter.api.Test;

/// What a log says of itself: where it may begin, and what is withdrawn.
class LogRemarksTest {
    private static final String ORIGIN = "example.com/Q2x1c3Rlcg/millrace.audit/0/0";
    private final TestLog log = new TestLog(0);

    private static PruneMark mark(TreeState then) {
        return new PruneMark(then.size(), then.lastLeaf().toHash(), new ArrayList<>(then.frontier().nodes().stream().map(Digest::toHash).toList()));
    }

    private TestLog prune(TreeState then) {
        return log.event(AuditEvent.PRUNE, record -> record.setPrune(mark(then)));
    }

    /// A verifier of a topic whose first `gone` leaves were deleted, with the newest PRUNE leaf handed over if asked.
    private LogVerifier cut(int gone, boolean told, NoteVerifier... keys) {
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(keys), null);
        verifier.truncated(0);
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        for (byte[] leaf : told ? log.leaves : List.<byte[]>of()) {
            AttestationRecord record = reader.read(leaf).record();
            if (record.getEvent() == AuditEvent.PRUNE) {
                verifier.pruned(0, record);
            }
        }
        for (int i = 0; i < log.checkpoints.size(); i++) {
            verifier.checkpoint(new Place("millrace.checkpoints", 0, i), log.checkpoints.get(i));
        }
        for (int i = gone; i < log.leaves.size(); i++) {
            verifier.leaf(0, i, log.leaves.get(i));
        }
        return verifier;
    }

    @Test
    void aLogWhoseHeadWasDeletedVerifiesFromAPruneLeafOn() {
        log.add(5).checkpoint().add(6);
        TreeState then = log.state;
        log.add(9).checkpoint();
        prune(then).add(3).checkpoint();
        assertThat(log.verdict()).as("as long as everything is there").isEqualTo(Verdict.VERIFIED);
        for (int gone = 1; gone <= 11; gone++) {
            LogVerifier verifier = cut(gone, true, TestLog.KEY.verifier());
            assertThat(verifier.verdict()).as("first %d gone", gone).isEqualTo(Verdict.VERIFIED);
            assertThat(verifier.logs()).containsExactly(
                    new LogVerifier.LogStatus(log.state.origin(), 24, log.state.frontier().root(), 24));
            assertThat(cut(gone, false, TestLog.KEY.verifier()).verdict()).as("without a PRUNE leaf").isInstanceOfSatisfying(
                    Undecided.class, open -> assertThat(open.code()).isEqualTo("LOG_PREFIX_MISSING"));
        }
        assertThat(cut(12, true, TestLog.KEY.verifier()).verdict()).as("more than it allows").isInstanceOfSatisfying(
                Undecided.class, open -> assertThat(open.code()).isEqualTo("LOG_PREFIX_MISSING"));
    }

    @Test
    void everyMarkOfEveryLogLetsItBegin() {
        for (int size = 1; size < 40; size++) {
            TestLog some = new TestLog(0).add(size);
            TreeState then = some.state;
            some.event(AuditEvent.PRUNE, record -> record.setPrune(mark(then))).add(size % 7).checkpoint();
            LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
            verifier.truncated(0);
            verifier.pruned(0, new WireReader<AttestationRecord>(Schemas.ATTESTATION, null).read(some.leaves.get(size)).record());
            verifier.checkpoint(new Place("c", 0, 0), some.checkpoints.getFirst());
            for (int i = size; i < some.leaves.size(); i++) {
                verifier.leaf(0, i, some.leaves.get(i));
            }
            assertThat(verifier.verdict()).as("begins at %d", size).isEqualTo(Verdict.VERIFIED);
        }
    }

    /// A PRUNE leaf is not believed: a tree that is not the log's gives roots that nobody signed.
    @Test
    void aWrongTreeInAPruneLeafIsFoundByTheSignedRoots() {
        log.add(11);
        TreeState then = log.state;
        log.add(5000);
        log.event(AuditEvent.PRUNE, record -> {
            PruneMark wrong = mark(then);
            wrong.getRoots().set(1, Digest.sha256("another").toHash());
            record.setPrune(wrong);
        }).checkpoint();
        assertThat(log.verdict()).as("too long ago to be told while everything is there").isEqualTo(Verdict.VERIFIED);
        Refuted refuted = (Refuted) cut(4, true, TestLog.KEY.verifier()).verdict();
        assertThat(refuted.code()).isEqualTo("LOG_ROOT");
        assertThat(refuted.at()).isEqualTo(new Place("millrace.checkpoints", 0, 0));
    }

    @Test
    void leavesThatAreLeftBeforeThePruneLeafsIndexHangOnTheChain() {
        log.add(11);
        TreeState then = log.state;
        prune(then).checkpoint();
        log.leaves.set(10, new TestLog(0).add(10).add(record -> record.setModelName("another")).leaves.get(10));
        assertThat(((Refuted) cut(10, true, TestLog.KEY.verifier()).verdict()).code()).isEqualTo("LOG_PREV_LEAF");
    }

    @Test
    void refusesAPruneLeafThatNamesAnotherLeafBefore() {
        log.add(11);
        TreeState then = log.state;
        log.event(AuditEvent.PRUNE, record -> {
            PruneMark wrong = mark(then);
            wrong.setPrevLeaf(Digest.ZERO.toHash());
            record.setPrune(wrong);
        }).checkpoint();
        assertThat(cut(4, true, TestLog.KEY.verifier()).verdict()).isEqualTo(new Refuted("LOG_PRUNE",
                "leaf: prev_leaf, as PRUNE states it", then.lastLeaf().hex(), Digest.ZERO.hex(), new Place(TestLog.TOPIC, 0, 11)));
    }

    @Test
    void aTreeThatNoCheckpointShowsIsNotDecided() {
        log.add(11);
        TreeState then = log.state;
        prune(then).add(2);
        for (NoteVerifier[] keys : new NoteVerifier[][] {{}, {TestLog.KEY.verifier()}}) {
            assertThat(cut(4, true, keys).verdict()).isEqualTo(new Undecided("LOG_PREFIX_MISSING", "log " + ORIGIN
                    + ": its first leaves are no longer in the topic, and no checkpoint shows yet that the tree of 11 leaves, from which"
                    + " a PRUNE leaf lets it begin, is theirs"));
        }
    }

    @Test
    void beginsInALaterEpochToo() {
        log.add(3).checkpoint().nextEpoch(record -> {}).add(6).checkpoint();
        TreeState then = log.state;
        prune(then).add(2).checkpoint();
        assertThat(cut(3 + 5, true, TestLog.KEY.verifier()).verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void refusesAPruneLeafThatSaysWhatCannotBe() {
        log.add(11);
        TreeState then = log.state;
        refusesPrune("leaf: prune", "where the log may begin", "nothing", record -> {});
        refusesPrune("leaf: prune: min_index", "more than 0 and at most 11", "0",
                record -> record.setPrune(new PruneMark(0L, Digest.ZERO.toHash(), List.of())));
        refusesPrune("leaf: prune: min_index", "more than 0 and at most 11", "12", record -> {
            PruneMark mark = mark(then);
            mark.setMinIndex(12L);
            record.setPrune(mark);
        });
        refusesPrune("leaf: prune: roots", "3", "2", record -> {
            PruneMark mark = mark(then);
            mark.getRoots().removeLast();
            record.setPrune(mark);
        });
        Digest wrong = Digest.sha256("another");
        refusesPrune("leaf: prune: tree of 11 leaves", then.frontier().root().hex(), null, record -> {
            PruneMark mark = mark(then);
            mark.getRoots().set(0, wrong.toHash());
            record.setPrune(mark);
        });
    }

    private void refusesPrune(String what, String expected, String got, Consumer<AttestationRecord> change) {
        TestLog wrong = new TestLog(0).add(11).event(AuditEvent.PRUNE, change);
        Refuted refuted = wrong.verifier().violation();
        assertThat(refuted).isNotNull();
        assertThat(refuted.code()).isEqualTo("LOG_PRUNE");
        assertThat(refuted.what()).isEqualTo(what);
        assertThat(refuted.expected()).isEqualTo(expected);
        if (got != null) {
            assertThat(refuted.got()).isEqualTo(got);
        }
        assertThat(refuted.at()).isEqualTo(new Place(TestLog.TOPIC, 0, 22));
    }

    @Test
    void theIndexOfPruneLeavesOnlyGrows() {
        log.add(11);
        TreeState then = log.state;
        prune(then);
        prune(then);
        Refuted refuted = log.verifier().violation();
        assertThat(refuted).isEqualTo(new Refuted("LOG_PRUNE", "leaf: prune: min_index", "more than 11 and at most 12", "11",
                new Place(TestLog.TOPIC, 0, 24)));
    }

    private static SuspectRange range(long from, long to) {
        return new SuspectRange(ORIGIN, from, to, "ERASURE");
    }

    @Test
    void listsWhatIsWithdrawnAndWhatIsInDoubt() {
        log.add(5).event(AuditEvent.RETRACT, record -> {
            record.setSuspect(range(2, 2));
            record.setDetail("scope=request");
        }).event(AuditEvent.FAULT, record -> record.setSuspect(new SuspectRange(ORIGIN, 0L, 3L, "WEIGHT")))
                .event(AuditEvent.FAULT, record -> {})
                .event(AuditEvent.FAULT, record -> record.setSuspect(range(5, 4))).checkpoint();
        LogVerifier verifier = log.verifier(TestLog.KEY.verifier());
        assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(verifier.withdrawals()).containsExactly(
                new Withdrawal(AuditEvent.RETRACT, ORIGIN, 2, 2, "ERASURE", "scope=request", new Place(TestLog.TOPIC, 0, 10)),
                new Withdrawal(AuditEvent.FAULT, ORIGIN, 0, 3, "WEIGHT", "", new Place(TestLog.TOPIC, 0, 12)));
        assertThat(verifier.withdrawals().getFirst()).hasToString(
                "RETRACT leaves 2 to 2 of " + ORIGIN + ": ERASURE, scope=request (millrace.audit-0@10)");
    }

    @Test
    void refusesARetractionOfWhatIsNotThere() {
        refusesRetraction("leaf: suspect", "the leaves that are withdrawn", "none", null);
        refusesRetraction("leaf: suspect: leaves", "leaves before 3", "2 to 3", range(2, 3));
        refusesRetraction("leaf: suspect: leaves", "leaves before 3", "-1 to 0", range(-1, 0));
        String own = ORIGIN + " or an earlier epoch of it";
        for (String other : List.of("example.com/Q2x1c3Rlcg/millrace.audit/1/0", "example.com/Q2x1c3Rlcg/millrace.audit/0/1",
                "example.org/Q2x1c3Rlcg/millrace.audit/0/0")) {
            refusesRetraction("leaf: suspect: origin", own, other, new SuspectRange(other, 0L, 0L, "ERASURE"));
        }
        refusesRetraction("leaf: suspect: origin", "the name of a log",
                "origin: expected domain/cluster/topic/partition/epoch, got \"\"", new SuspectRange("", 0L, 0L, "ERASURE"));
    }

    @Test
    void refusesDoubtOfWhatIsNotThere() {
        for (AuditEvent event : List.of(AuditEvent.FAULT, AuditEvent.CANARY)) {
            TestLog wrong = new TestLog(0).add(3).event(event, record -> record.setSuspect(range(1, 3)));
            assertThat(wrong.verifier().violation()).isEqualTo(new Refuted("LOG_RETRACT", "leaf: suspect: leaves",
                    "leaves before 3", "1 to 3", new Place(TestLog.TOPIC, 0, 6)));
            TestLog right = new TestLog(0).add(3).event(event, record -> record.setSuspect(range(1, 2)));
            assertThat(right.verifier().withdrawals()).extracting(Withdrawal::event, Withdrawal::fromSeq, Withdrawal::toSeq)
                    .containsExactly(org.assertj.core.groups.Tuple.tuple(event, 1L, 2L));
        }
    }

    private static void refusesRetraction(String what, String expected, String got, SuspectRange range) {
        TestLog wrong = new TestLog(0).add(3).event(AuditEvent.RETRACT, record -> record.setSuspect(range));
        assertThat(wrong.verifier().violation())
                .isEqualTo(new Refuted("LOG_RETRACT", what, expected, got, new Place(TestLog.TOPIC, 0, 6)));
    }
}

package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.IntFunction;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Schemas;
import org.apache.avro.Schema;
import org.junit.jupiter.api.Test;

class LogVerifierTest {
    private final TestLog log = new TestLog(0);

    @Test
    void verifiesAnHonestLog() {
        log.add(3).checkpoint().add(10).checkpoint().add(2);
        LogVerifier verifier = log.verifier(TestLog.KEY.verifier());
        assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(verifier.leaves()).isEqualTo(15);
        assertThat(verifier.checkpoints()).isEqualTo(2);
        assertThat(verifier.logs()).containsExactly(
                new LogVerifier.LogStatus(log.state.origin(), 15, log.state.frontier().root(), 13));
    }

    /// A log goes on when the writer is upgraded, and its old leaves are hashed under the schema that they had.
    @Test
    void verifiesALogThatBeganWithAnOlderVersionOfTheRecord() {
        log.addOld().addOld().checkpoint().add(3).addOld().checkpoint();
        assertThat(log.verdict()).isEqualTo(Verdict.VERIFIED);
        byte[] longer = Arrays.copyOf(log.leaves.getFirst(), log.leaves.getFirst().length + 1);
        log.leaves.set(0, longer);
        assertThat(log.verdict()).isInstanceOf(Refuted.class);
    }

    @Test
    void readsOldRecordsWithAndWithoutARegistry() {
        log.addOld().add();
        IntFunction<Schema> registry = id -> Schemas.ATTESTATION.versions().getLast();
        for (var reader : List.of(new WireReader<AttestationRecord>(Schemas.ATTESTATION, registry),
                new WireReader<AttestationRecord>(Schemas.ATTESTATION, null))) {
            var old = reader.read(log.leaves.getFirst());
            assertThat(old.record().getWeightFormat()).isEmpty();
            assertThat(old.record().getSchemaVersion()).isEqualTo(1);
            assertThat(old.fingerprint().hex())
                    .isEqualTo("f0a452c49e4590f4018c88465b06978e1bd0b4e153b270ec14b30ccf58369f45");
        }
        var current = new WireReader<AttestationRecord>(Schemas.ATTESTATION, null).read(log.leaves.getLast());
        assertThat(current.record().getWeightFormat()).isEqualTo("bf16+f32");
        assertThat(current.fingerprint().hex()).isEqualTo(Schemas.ATTESTATION.fingerprintHex());
    }

    @Test
    void verifiesSeveralPartitionsWhicheverWayTheirLeavesAreMixed() {
        TestLog other = new TestLog(1);
        log.add(4).checkpoint();
        other.add(6).checkpoint();
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        log.feed(verifier);
        other.feed(verifier);
        assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(verifier.logs()).hasSize(2);
    }

    @Test
    void acceptsACheckpointThatComesSomewhatAfterItsLeaves() {
        log.add(3).checkpoint().add(20);
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        for (int i = 0; i < log.leaves.size(); i++) {
            verifier.leaf(0, i, log.leaves.get(i));
        }
        assertThat(verifier.verdict()).isInstanceOfSatisfying(Undecided.class,
                open -> assertThat(open.code()).isEqualTo("CHECKPOINT_MISSING"));
        assertThat(verifier.checkpoint(new Place("c", 0, 0), log.checkpoints.getFirst())).isTrue();
        assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void cannotDecideACheckpointThatComesTooLate() {
        log.add(1).checkpoint().add(LogVerifier.RECENT + 1);
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(), null);
        for (int i = 0; i < log.leaves.size(); i++) {
            verifier.leaf(0, i, log.leaves.get(i));
        }
        verifier.checkpoint(new Place("c", 0, 0), log.checkpoints.getFirst());
        assertUndecided(verifier.verdict(), "CHECKPOINT_LATE", "log " + log.state.origin()
                + ": the checkpoint at c-0@0 came more than 4096 leaves after its last leaf; verify once more");
    }

    @Test
    void cannotDecideAnEmptyTopic() {
        assertUndecided(log.verdict(), "LOG_EMPTY", "topic millrace.audit holds no leaves; is it the audit topic?");
    }

    @Test
    void cannotDecideWhenLeavesOfACheckpointAreMissing() {
        log.add(5).checkpoint();
        log.leaves.removeLast();
        assertUndecided(log.verdict(), "CHECKPOINT_AHEAD", "log " + log.state.origin() + ": the checkpoint at"
                + " millrace.checkpoints-0@0 covers 5 leaves, 4 are here; they are late, or were removed");
    }

    /// With the word of who read it that nothing is pending in the partition, it can.
    @Test
    void findsATailThatWasCutOff() {
        log.add(5).checkpoint();
        log.leaves.removeLast();
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        log.feed(verifier);
        verifier.complete(1);
        assertUndecided(verifier.verdict(), "CHECKPOINT_AHEAD", "log " + log.state.origin() + ": the checkpoint at"
                + " millrace.checkpoints-0@0 covers 5 leaves, 4 are here; they are late, or were removed");
        verifier.complete(0);
        assertThat(verifier.verdict()).hasToString("millrace.checkpoints-0@0: LOG_CUT_OFF: leaves of log " + log.state.origin()
                + ", in a partition without open transactions: expected the 5 that this signed checkpoint covers, got 4");
    }

    @Test
    void cannotDecideRootsWhenTheOldestLeavesWereDeleted() {
        log.add(5).checkpoint();
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        verifier.truncated(0);
        for (int i = 2; i < 5; i++) {
            verifier.leaf(0, i, log.leaves.get(i));
        }
        assertUndecided(verifier.verdict(), "LOG_PREFIX_MISSING", "log " + log.state.origin()
                + ": its first 2 leaves are no longer in the topic, so roots cannot be computed;"
                + " sequence and chain of the 3 others hold");
    }

    @Test
    void refusesARepeatedLeaf() {
        log.add(3);
        log.leaves.add(2, log.leaves.get(1));
        assertRefuted("LOG_SEQ_REPEATED", "leaf: seq", "2", "1", 4);
    }

    @Test
    void refusesASkippedLeaf() {
        log.add(4);
        log.leaves.remove(2);
        assertRefuted("LOG_SEQ_SKIPPED", "leaf: seq", "2", "3", 4);
    }

    @Test
    void refusesAMissingFirstLeaf() {
        log.add(2);
        log.leaves.remove(0);
        assertRefuted("LOG_SEQ_SKIPPED", "leaf: seq", "0", "1", 0);
    }

    @Test
    void refusesLeavesInAnotherOrder() {
        log.add(4);
        Collections.swap(log.leaves, 1, 2);
        assertRefuted("LOG_SEQ_SKIPPED", "leaf: seq", "1", "2", 2);
    }

    @Test
    void refusesALeafThatWasReplacedByAnother() {
        log.add(3);
        TestLog forged = new TestLog(0).add().add(record -> record.setCompletionTokens(99));
        log.leaves.set(1, forged.leaves.get(1));
        // The forged leaf itself is well formed; the next one names the leaf that stood there.
        assertRefuted("LOG_PREV_LEAF", "leaf: prev_leaf", forged.hashes.get(1).hex(), log.hashes.get(1).hex(), 4);
    }

    @Test
    void refusesAReplacedLastLeafByTheCheckpoint() {
        log.add(3).checkpoint();
        TestLog forged = new TestLog(0).add(2).add(record -> record.setCompletionTokens(99));
        log.leaves.set(2, forged.leaves.get(2));
        Refuted refuted = (Refuted) log.verdict();
        assertThat(refuted).isEqualTo(new Refuted("LOG_ROOT",
                "checkpoint of size 3 of log " + log.state.origin() + ": root", forged.state.frontier().root().hex(),
                log.state.frontier().root().hex(), new Place("millrace.checkpoints", 0, 0)));
    }

    /// The registry's schema id is the only part that no hash covers, for it differs between clusters.
    @Test
    void noticesEveryFlippedBitOfALeaf() {
        log.add(2).checkpoint();
        byte[] whole = log.leaves.get(0);
        for (int bit = 40; bit < 8 * whole.length; bit++) {
            byte[] flipped = whole.clone();
            flipped[bit / 8] ^= (byte) (1 << bit % 8);
            log.leaves.set(0, flipped);
            assertThat(log.verifier().violation()).as("bit %d", bit).isNotNull()
                    .extracting(Refuted::code).asString().startsWith("LOG_");
        }
    }

    @Test
    void refusesALeafOfAnotherPartitionTopicOrCluster() {
        refusesChange("LOG_PARTITION", "leaf: partition in log_origin", "0", "5",
                record -> record.setLogOrigin(record.getLogOrigin().replace("/0/0", "/5/0")));
        refusesChange("LOG_TOPIC", "leaf: topic in log_origin", "millrace.audit", "other.audit",
                record -> record.setLogOrigin(record.getLogOrigin().replace("millrace.audit", "other.audit")));
        refusesChange("LOG_ORIGIN", "leaf: log_origin", "example.com/Q2x1c3Rlcg/millrace.audit/...",
                "example.com/other/millrace.audit/0/0",
                record -> record.setLogOrigin(record.getLogOrigin().replace("Q2x1c3Rlcg", "other")));
        refusesChange("LOG_ORIGIN", "leaf", "a readable record of a log",
                "origin: expected domain/cluster/topic/partition/epoch, got \"who?\"",
                record -> record.setLogOrigin("who?"));
        refusesChange("LOG_EPOCH", "leaf: epoch", "0", "1", record -> record.setEpoch(1));
    }

    @Test
    void refusesAnOriginThatIsNotTheExpectedOne() {
        log.add();
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(), null).expecting("example.com", "mine");
        log.feed(verifier);
        assertThat(verifier.violation()).isNotNull().extracting(Refuted::code).isEqualTo("LOG_ORIGIN");
    }

    @Test
    void refusesASecondLeafForTheSamePrompt() {
        log.add(2).add(record -> record.setInOffset(100));
        assertRefuted("LOG_DUPLICATE_CAUSE", "leaf: prompt record", "one leaf",
                "a second for millrace.prompts-0@100", 4);
    }

    @Test
    void acceptsEventsBetweenAnswers() {
        log.addEvent(AuditEvent.MODEL_LOAD).addEvent(AuditEvent.BUILD).add(2).addEvent(AuditEvent.FAULT)
                .addEvent(AuditEvent.FAULT).add(1).checkpoint();
        assertThat(log.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void refusesUndecodableLeaves() {
        log.add(1);
        List<Integer> older = lengthsOfOlderVersions(log.next());
        log.add(1);
        byte[] whole = log.leaves.get(1);
        undecodable(null, "no value");
        String prefix = "millrace.schemas.AttestationRecord: expected a byte 0 and a schema id before the record, got ";
        undecodable(new byte[] {1, 0, 0, 0, 1, 9}, prefix + "6 bytes that begin with 1");
        undecodable(new byte[0], prefix + "0 bytes");
        undecodable(Arrays.copyOf(whole, whole.length + 1),
                "millrace.schemas.AttestationRecord: expected no bytes after the record, got some");
        for (int length = 5; length < whole.length; length++) {
            if (older.contains(length)) {
                continue;
            }
            LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(), null);
            verifier.leaf(0, 0, Arrays.copyOf(whole, length));
            assertThat(verifier.violation()).isNotNull().extracting(Refuted::code).isEqualTo("LOG_UNDECODABLE");
        }
    }

    /// It decodes as a record of an older version, whose hash is another.
    @Test
    void refusesALeafWhoseNewFieldsWereCutOff() {
        log.add(1);
        List<Integer> older = lengthsOfOlderVersions(log.next());
        log.add(2);
        byte[] whole = log.leaves.get(1);
        assertThat(older).hasSize(3);
        for (int length : older) {
            log.leaves.set(1, Arrays.copyOf(whole, length));
            assertThat(log.verifier().violation()).isNotNull().extracting(Refuted::code).isEqualTo("LOG_PREV_LEAF");
        }
    }

    private static List<Integer> lengthsOfOlderVersions(AttestationRecord record) {
        return Schemas.ATTESTATION.versions().stream().skip(1).map(version -> TestLog.wire(record, version).length)
                .toList();
    }

    private void undecodable(byte[] value, String got) {
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(), null);
        assertThat(verifier.leaf(0, 0, value)).isNull();
        assertThat(verifier.violation()).isEqualTo(new Refuted("LOG_UNDECODABLE", "leaf",
                "a readable record of a log", got, new Place(TestLog.TOPIC, 0, 0)));
    }

    @Test
    void followsAnEpoch() {
        log.add(3).checkpoint().nextEpoch(record -> {}).add(2).checkpoint();
        assertThat(log.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(log.verifier().logs()).hasSize(2);
    }

    @Test
    void acceptsANewEpochWhoseWriterLostTheOldRoot() {
        log.add(3).nextEpoch(record -> record.getPreviousLog().setRoot(Digest.ZERO.toHash())).checkpoint();
        assertThat(log.verifier().verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void refusesAnEpochThatDoesNotNameWhereTheLastOneEnded() {
        for (Consumer<AttestationRecord> change : List.<Consumer<AttestationRecord>>of(
                record -> record.setPreviousLog(null),
                record -> record.setEvent(AuditEvent.INFERENCE),
                record -> record.getPreviousLog().setSize(2),
                record -> record.getPreviousLog().setOrigin("x"),
                record -> record.getPreviousLog().setRoot(Digest.sha256("x").toHash()))) {
            TestLog forked = new TestLog(0).add(3).nextEpoch(change);
            assertThat(forked.verifier().violation()).isNotNull()
                    .extracting(Refuted::code).isEqualTo("LOG_EPOCH_START");
        }
    }

    @Test
    void refusesAnEpochThatGoesBack() {
        log.add(2).nextEpoch(record -> {});
        TestLog old = new TestLog(0).add(3);
        log.leaves.add(old.leaves.get(2));
        assertRefuted("LOG_EPOCH_DECREASED", "leaf: epoch", "at least 1", "0", 6);
    }

    @Test
    void cannotDecideWhenTheEpochsBeforeAreMissing() {
        log.nextEpoch(record -> {});
        assertUndecided(log.verifier().verdict(), "LOG_PREFIX_MISSING",
                "log " + log.state.origin() + ": the logs of the epochs before it are not in the topic");
    }

    @Test
    void refusesTwoCheckpointsOfOneSizeWithDifferentRoots() {
        log.add(3).checkpoint();
        TestLog fork = new TestLog(0).add(2).add(record -> record.setSeed(7)).checkpoint();
        log.checkpoints.add(fork.checkpoints.getFirst());
        assertThat(log.verdict()).isEqualTo(new Refuted("EQUIVOCATION",
                "two checkpoints of size 3 of log " + log.state.origin() + ", the other at millrace.checkpoints-0@0",
                log.state.frontier().root().hex(), fork.state.frontier().root().hex(),
                new Place("millrace.checkpoints", 0, 1)));
        // Also when the first was already found to agree with the leaves.
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        log.checkpoints.removeLast();
        log.feed(verifier);
        assertThat(verifier.checkpoint(new Place("c", 0, 9), fork.checkpoints.getFirst())).isFalse();
        assertThat(verifier.violation()).isNotNull().extracting(Refuted::code).isEqualTo("EQUIVOCATION");
    }

    @Test
    void acceptsTheSameCheckpointTwice() {
        log.add(3).checkpoint().checkpoint();
        assertThat(log.verdict()).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void refusesBadNotes() {
        log.add(3);
        Checkpoint head = log.state.checkpoint();
        refusesNote("NOTE_SIZE", SignedNote.sign(head.text().replace("\n3\n", "\n003\n"), TestLog.KEY).encode());
        refusesNote("NOTE_EXTENSION", SignedNote.sign(head.text() + "extra\n", TestLog.KEY).encode());
        refusesNote("NOTE_CONTROL", head.sign(TestLog.KEY).encode().replace("\n", "\r\n"));
        refusesNote("NOTE_ORIGIN", SignedNote.sign("second\n" + head.text(), TestLog.KEY).encode());
        refusesNote("NOTE_ORIGIN", new Checkpoint("another log", 3, head.root()).sign(TestLog.KEY).encode());
        refusesNote("NOTE_ORIGIN", new Checkpoint("a/b/other/0/0", 3, head.root()).sign(TestLog.KEY).encode());
        refusesNote("NOTE_UNKNOWN_KEY", head.sign(TestLog.key("other", 4)).encode());
        refusesNote("NOTE_SIGNATURE", new SignedNote(head.text(),
                SignedNote.sign(head.text() + "\n", TestLog.KEY).signatures()).encode());
        refusesNote("NOTE_RECORD", new Checkpoint(head.origin(), 2, head.root()).sign(TestLog.KEY).encode());
        refusesNote("NOTE_FORM", "nothing");
    }

    private void refusesNote(String code, String note) {
        log.checkpoints.clear();
        log.checkpoint(note);
        Refuted refuted = (Refuted) log.verdict();
        assertThat(refuted.code()).isEqualTo(code);
        assertThat(refuted.at()).isEqualTo(new Place("millrace.checkpoints", 0, 0));
    }

    @Test
    void namesTheFirstWrongSignatureOfMany() {
        log.add(1);
        for (int i = 0; i < 600; i++) {
            SignedNote good = log.state.checkpoint().sign(TestLog.KEY);
            log.checkpoint(i == 300 || i == 301 || i == 550 ? new SignedNote(good.text(), List.of(new SignedNote.Signature(
                    TestLog.KEY.name(), TestLog.KEY.keyId(), new byte[64]))) : good);
        }
        log.checkpoint("nothing");
        Refuted refuted = (Refuted) log.verdict();
        assertThat(refuted.code()).isEqualTo("NOTE_SIGNATURE");
        assertThat(refuted.at()).isEqualTo(new Place("millrace.checkpoints", 0, 300));
    }

    /// Who else signs what is right is found among those who may, and so is who signs what is not there yet.
    @Test
    void findsAForeignSignerAmongMany() {
        log.add(1);
        for (int i = 0; i < 20; i++) {
            log.checkpoint(log.state.checkpoint().sign(i == 7 || i == 9 ? TestLog.key("other", 4) : TestLog.KEY));
        }
        Refuted refuted = (Refuted) log.verdict();
        assertThat(refuted.code()).isEqualTo("NOTE_UNKNOWN_KEY");
        assertThat(refuted.at()).isEqualTo(new Place("millrace.checkpoints", 0, 7));
        log.leaves.clear();
        assertThat(log.verdict()).as("before the leaves come").isEqualTo(refuted);
    }

    @Test
    void refusesAnUndecodableCheckpoint() {
        log.add(1).checkpoints.add(new byte[] {0, 0, 0});
        assertThat(((Refuted) log.verdict()).code()).isEqualTo("NOTE_RECORD");
    }

    @Test
    void checksRootsButNoSignaturesWithoutAKey() {
        log.add(3);
        log.checkpoint(log.state.checkpoint().sign(TestLog.key("anyone", 4)));
        assertThat(log.verifier().verdict()).isEqualTo(Verdict.VERIFIED);
        CheckpointRecord wrong = new CheckpointRecord(log.state.origin().text(), 0, 3L, Digest.ZERO.toHash(),
                new Checkpoint(log.state.origin().text(), 3, Digest.ZERO).sign(TestLog.KEY).encode(), 0L);
        log.checkpoints.set(0, TestLog.wire(wrong));
        assertThat(log.verifier().violation()).isNotNull().extracting(Refuted::code).isEqualTo("LOG_ROOT");
    }

    @Test
    void looksAtOnePartitionOnly() {
        TestLog other = new TestLog(1).add(2).checkpoint();
        log.add(3).checkpoint();
        LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
        verifier.checkpoint(new Place("c", 1, 0), other.checkpoints.getFirst(), 0);
        log.feed(verifier);
        assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(verifier.checkpoints()).isEqualTo(1);
    }

    @Test
    void showsPlaceAndBothHashes() {
        Refuted refuted = new Refuted("LOG_PREV_LEAF", "leaf: prev_leaf", "aa", "bb", new Place("audit", 2, 17));
        assertThat(refuted).hasToString("audit-2@17: LOG_PREV_LEAF: leaf: prev_leaf: expected aa, got bb");
    }

    private void refusesChange(
            String code, String what, String expected, String got, Consumer<AttestationRecord> change) {
        TestLog changed = new TestLog(0).add(2).add(change);
        assertThat(changed.verifier().violation())
                .isEqualTo(new Refuted(code, what, expected, got, new Place(TestLog.TOPIC, 0, 4)));
    }

    private void assertRefuted(String code, String what, String expected, String got, long offset) {
        assertThat(log.verifier().violation())
                .isEqualTo(new Refuted(code, what, expected, got, new Place(TestLog.TOPIC, 0, offset)));
    }

    private static void assertUndecided(Verdict verdict, String code, String why) {
        assertThat(verdict).isEqualTo(new Undecided(code, why));
    }
}

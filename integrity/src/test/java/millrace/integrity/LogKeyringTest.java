package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.schemas.AuditEvent;
import org.junit.jupiter.api.Test;

/// Who knows the key that a log began with can follow its rotations, and nobody else's.
class LogKeyringTest {
    private static final NoteSigner OLD = TestLog.KEY;
    private static final NoteSigner NEW = TestLog.key("example.com/millrace", 8);
    private static final NoteSigner NEXT = TestLog.key("example.com/millrace", 9);
    private final TestLog log = new TestLog(0);

    private TestLog rotateTo(NoteSigner key) {
        return log.event(AuditEvent.KEY_ROTATION, record -> record.setNewKey(key.vkey()));
    }

    private TestLog signed(NoteSigner... keys) {
        return log.add().checkpoint(log.state.checkpoint().sign(keys));
    }

    private Verdict verdict(NoteSigner... known) {
        return log.verifier(java.util.Arrays.stream(known).map(NoteSigner::verifier).toArray(NoteVerifier[]::new)).verdict();
    }

    private Refuted refuted(NoteSigner... known) {
        return (Refuted) verdict(known);
    }

    @Test
    void whoKnowsTheOldKeyFollows() {
        signed(OLD);
        rotateTo(NEW);
        signed(NEW, OLD);
        signed(NEW, OLD);
        signed(NEW);
        signed(NEW);
        assertThat(verdict(OLD)).isEqualTo(Verdict.VERIFIED);
        assertThat(verdict(OLD, NEW)).isEqualTo(Verdict.VERIFIED);
        assertThat(verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(refuted(NEW).code()).as("who knows the new key alone cannot tell who signed before").isEqualTo("NOTE_UNKNOWN_KEY");
        assertThat(refuted(NEW).at()).isEqualTo(new Place("millrace.checkpoints", 0, 0));
    }

    @Test
    void followsOneRotationAfterAnother() {
        signed(OLD);
        rotateTo(NEW);
        signed(NEW, OLD);
        signed(NEW);
        rotateTo(NEXT);
        signed(NEXT, NEW);
        signed(NEXT);
        assertThat(verdict(OLD)).isEqualTo(Verdict.VERIFIED);
        signed(NEW);
        assertThat(refuted(OLD)).isEqualTo(new Refuted("LOG_KEY_RETIRED", "checkpoint of size 8: keys",
                "a signature of " + NEXT.label() + ", which signs from leaf 4 on", "only [" + NEW.label() + "]",
                new Place("millrace.checkpoints", 0, 5)));
    }

    @Test
    void anOldKeyThatWasRetiredNamesNoNewOne() {
        signed(OLD);
        rotateTo(NEW);
        signed(NEW, OLD);
        signed(NEW);
        NoteSigner thief = TestLog.key("example.com/millrace", 66);
        rotateTo(thief);
        signed(thief, OLD);
        assertThat(refuted(OLD).code()).isEqualTo("LOG_KEY_ROTATION");
    }

    @Test
    void refusesTheOldKeyAlone() {
        rotateTo(NEW);
        signed(NEW, OLD);
        signed(OLD);
        Refuted expected = new Refuted("LOG_KEY_RETIRED", "checkpoint of size 3: keys",
                "a signature of " + NEW.label() + ", which signs from leaf 0 on", "only [" + OLD.label() + "]",
                new Place("millrace.checkpoints", 0, 1));
        assertThat(refuted(OLD)).isEqualTo(expected);
        assertThat(refuted(OLD, NEW)).isEqualTo(expected);
    }

    @Test
    void refusesARotationThatTheOldKeyHasNotSignedFor() {
        signed(OLD);
        rotateTo(NEW);
        signed(NEW);
        assertThat(refuted(OLD)).isEqualTo(new Refuted("LOG_KEY_ROTATION", "checkpoint of size 3: keys",
                "first one by the key before leaf 1, which names " + NEW.label(), "only [" + NEW.label() + "]",
                new Place("millrace.checkpoints", 0, 1)));
        assertThat(verdict(OLD, NEW)).as("who was given the new key needs no one to vouch for it").isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void refusesAWrongSignatureOfTheNewKey() {
        rotateTo(NEW);
        signed(NEW, OLD);
        log.add();
        SignedNote good = log.state.checkpoint().sign(NEW);
        log.checkpoint(new SignedNote(good.text(), List.of(new SignedNote.Signature(NEW.name(), NEW.keyId(), new byte[64]))));
        assertThat(refuted(OLD).code()).isEqualTo("NOTE_SIGNATURE");
        assertThat(refuted(OLD).at()).isEqualTo(new Place("millrace.checkpoints", 0, 1));
    }

    @Test
    void refusesAWrongSignatureOfTheOldKeyUnderTheRotation() {
        rotateTo(NEW);
        log.add();
        SignedNote good = log.state.checkpoint().sign(NEW);
        log.checkpoint(new SignedNote(good.text(), List.of(good.signatures().getFirst(),
                new SignedNote.Signature(OLD.name(), OLD.keyId(), new byte[64]))));
        assertThat(refuted(OLD).code()).isEqualTo("NOTE_SIGNATURE");
    }

    @Test
    void aLogThatBeginsAfterACompromiseNeedsTheNewKeyFromOutside() {
        signed(OLD);
        log.nextEpoch(record -> {
            record.setNewKey(NEW.vkey());
            record.getPreviousLog().setReason("KEY_COMPROMISE");
        });
        signed(NEW);
        assertThat(verdict(OLD, NEW)).isEqualTo(Verdict.VERIFIED);
        assertThat(refuted(OLD).code()).isEqualTo("NOTE_UNKNOWN_KEY");
        signed(NEW, OLD);
        assertThat(refuted(OLD).code()).as("the old key vouches for nothing").isEqualTo("NOTE_UNKNOWN_KEY");
        signed(OLD);
        assertThat(refuted(OLD, NEW).code()).as("the stolen key signs nothing").isEqualTo("LOG_KEY_RETIRED");
    }

    @Test
    void refusesALeafThatNamesNoKey() {
        for (String key : new String[] {null, "", "nonsense"}) {
            TestLog other = new TestLog(0).event(AuditEvent.KEY_ROTATION, record -> record.setNewKey(key));
            Refuted refuted = other.verifier().violation();
            assertThat(refuted).isNotNull();
            assertThat(refuted.code()).isEqualTo("LOG_KEY_ROTATION");
            assertThat(refuted.what()).isEqualTo("leaf: new_key");
            assertThat(refuted.at()).isEqualTo(new Place(TestLog.TOPIC, 0, 0));
        }
    }

    @Test
    void cannotTellWhoseSuccessorSignsAheadOfTheLeaves() {
        signed(OLD);
        rotateTo(NEW);
        signed(NEW, OLD);
        signed(NEW);
        log.leaves.removeLast();
        assertThat(verdict(OLD)).isInstanceOfSatisfying(Verdict.Undecided.class,
                open -> assertThat(open.code()).isEqualTo("CHECKPOINT_AHEAD"));
    }
}

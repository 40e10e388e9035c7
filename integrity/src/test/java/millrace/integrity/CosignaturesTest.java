package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.util.List;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import org.junit.jupiter.api.Test;

class CosignaturesTest {
    private static final NoteSigner FIRST = TestLog.witness("first.example", 1);
    private static final NoteSigner SECOND = TestLog.witness("second.example", 2);
    private static final NoteSigner STRANGER = TestLog.witness("stranger.example", 3);

    private final TestLog log = new TestLog(0);
    private final LogVerifier verifier = new LogVerifier(TestLog.TOPIC, List.of(TestLog.KEY.verifier()), null);
    private long offset;

    private Cosignatures witnesses(int quorum) {
        return new Cosignatures(List.of(FIRST.verifier(), SECOND.verifier()), quorum);
    }

    private boolean take(Cosignatures into, SignedNote note) {
        return into.take(verifier, new Place("cosigs", 0, offset++), note.encode().getBytes(StandardCharsets.UTF_8), null);
    }

    private SignedNote head() {
        return log.state.checkpoint().sign(TestLog.KEY);
    }

    @Test
    void coversALogAsFarAsEnoughWitnessesWent() {
        Cosignatures one = witnesses(1);
        Cosignatures both = witnesses(2);
        log.add(3);
        SignedNote three = head();
        log.add(4).checkpoint();
        SignedNote seven = head();
        for (Cosignatures into : List.of(one, both)) {
            assertThat(take(into, three.cosign(FIRST, 1).cosign(SECOND, 1))).isTrue();
            assertThat(take(into, seven.cosign(FIRST, 2))).isTrue();
            assertThat(take(into, seven.cosign(STRANGER, 2))).isTrue();
        }
        log.feed(verifier);
        assertThat(verifier.verdict()).isEqualTo(Verdict.VERIFIED);
        assertThat(one.covered(log.state.origin().text())).isEqualTo(7);
        assertThat(both.covered(log.state.origin().text())).isEqualTo(3);
        assertThat(both.verdict(verifier.logs())).isEqualTo(Verdict.VERIFIED);
    }

    @Test
    void cannotDecideWithoutEnough() {
        Cosignatures both = witnesses(2);
        log.add(3).checkpoint();
        take(both, head().cosign(FIRST, 1));
        log.feed(verifier);
        assertThat(both.verdict(verifier.logs())).isEqualTo(new Undecided("WITNESS_MISSING",
                "log %s: expected cosignatures of 2 of [%s, %s], got 1".formatted(log.state.origin(), FIRST.label(), SECOND.label())));
    }

    /// The operator signs another history for the auditor than for the witness.
    @Test
    void findsAForkFromWhatAWitnessSaw() {
        Cosignatures one = witnesses(1);
        log.add(3);
        SignedNote forked = new Checkpoint(log.state.origin().text(), 3, Digest.sha256("another history")).sign(TestLog.KEY)
                .cosign(FIRST, 1);
        log.add(2).checkpoint();
        take(one, forked);
        log.feed(verifier);
        assertThat(verifier.violation()).isInstanceOfSatisfying(Refuted.class, found -> {
            assertThat(found.code()).isEqualTo("LOG_ROOT");
            assertThat(found.at()).isEqualTo(new Place("cosigs", 0, 0));
        });
    }

    @Test
    void refusesAWrongCosignatureOfAKnownWitness() {
        Cosignatures one = witnesses(1);
        log.add(3).checkpoint();
        SignedNote right = head().cosign(FIRST, 1);
        byte[] signature = right.of(FIRST.verifier()).getFirst().signature();
        signature[20] ^= 1;
        take(one, new SignedNote(right.text(), List.of(right.signatures().getFirst(),
                new SignedNote.Signature(FIRST.name(), FIRST.keyId(), signature))));
        assertThat(one.violation()).isNotNull().extracting(Refuted::code).isEqualTo("NOTE_SIGNATURE");
        assertThat(take(one, right)).as("after a violation nothing more is looked at").isFalse();
    }

    @Test
    void refusesWhatIsNoNoteAndAQuorumThatCannotBe() {
        Cosignatures one = witnesses(1);
        assertThat(one.take(verifier, new Place("cosigs", 0, 0), null, null)).isFalse();
        assertThat(one.violation()).isNotNull().extracting(Refuted::code).isEqualTo("NOTE_FORM");
        assertThatThrownBy(() -> witnesses(3)).hasMessage("--quorum: expected 1 to 2, the number of witnesses, got 3");
        assertThatThrownBy(() -> witnesses(0)).hasMessage("--quorum: expected 1 to 2, the number of witnesses, got 0");
    }
}

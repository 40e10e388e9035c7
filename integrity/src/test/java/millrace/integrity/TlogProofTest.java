package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.junit.jupiter.api.Test;

class TlogProofTest {
    private final TestLog log = new TestLog(0).add(11);
    private final SignedNote note = log.state.checkpoint().sign(TestLog.KEY);
    private final List<NoteVerifier> keys = List.of(TestLog.KEY.verifier());

    private TlogProof proof(int index) {
        return new TlogProof(index, InclusionProof.build(log.hashes, index).path(), note);
    }

    @Test
    void provesEveryLeafAsText() {
        for (int i = 0; i < log.hashes.size(); i++) {
            TlogProof back = TlogProof.parse(proof(i).encode());
            assertThat(back).isEqualTo(proof(i));
            assertThat(back.verify(log.hashes.get(i), keys)).isEqualTo(Verdict.VERIFIED);
            assertThat(((Verdict.Refuted) back.verify(Digest.ZERO, keys)).code()).isEqualTo("PROOF_INVALID");
        }
    }

    @Test
    void needsAKnownKey() {
        Verdict verdict = proof(3).verify(log.hashes.get(3), List.of(TestLog.key("other", 2).verifier()));
        assertThat(((Verdict.Refuted) verdict).code()).isEqualTo("NOTE_UNKNOWN_KEY");
    }

    @Test
    void worksForTheOnlyLeaf() {
        TestLog one = new TestLog(0).add();
        TlogProof proof = new TlogProof(0, List.of(), one.state.checkpoint().sign(TestLog.KEY));
        assertThat(TlogProof.parse(proof.encode()).verify(one.hashes.getFirst(), keys).ok()).isTrue();
    }

    @Test
    void refusesOtherForms() {
        String text = proof(3).encode();
        for (String bad : List.of("", text.replace("@v1", "@v2"), text.replace("index 3", "index 03"),
                text.replace("index 3", "index -3"), text.replace("index 3\n", ""), text.replaceFirst("=\n", "\n"),
                text.substring(0, text.indexOf("\n\n")))) {
            assertThatThrownBy(() -> TlogProof.parse(bad)).as(bad).isInstanceOf(IntegrityException.class)
                    .extracting("code").isEqualTo("PROOF_FORMAT");
        }
        assertThatThrownBy(() -> TlogProof.parse(text.replace("index 3", "index 03")))
                .hasMessage("proof: index: expected a decimal number without leading zeros, got \"03\"");
        String hash = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
        String longer = text.replace("index 3\n", "index 3\n" + hash.repeat(64));
        assertThatThrownBy(() -> TlogProof.parse(longer)).hasMessage("proof: expected at most 63 hashes, got 68");
    }
}

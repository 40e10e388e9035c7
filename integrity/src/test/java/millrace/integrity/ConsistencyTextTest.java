package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class ConsistencyTextTest {
    private final TestLog log = new TestLog(0).add(13);

    private Checkpoint head(int size) {
        return new Checkpoint(log.state.origin().text(), size, MerkleFrontier.over(log.hashes.subList(0, size)).root());
    }

    private ConsistencyText text(int from, int to) {
        return new ConsistencyText(
                from, ConsistencyProof.build(log.hashes.subList(0, to), from).path(), head(to).sign(TestLog.KEY));
    }

    @Test
    void showsGrowthAsText() {
        for (int to = 0; to <= 13; to++) {
            for (int from = 0; from <= to; from++) {
                ConsistencyText back = ConsistencyText.parse(text(from, to).encode());
                assertThat(back).isEqualTo(text(from, to));
                assertThat(back.verify(head(from), head(to))).as("%d to %d", from, to).isEqualTo(Verdict.VERIFIED);
            }
        }
    }

    @Test
    void isAProofOfItsTwoCheckpointsOnly() {
        ConsistencyText proof = text(3, 7);
        assertRefuted(proof.verify(head(4), head(7)), "consistency proof: old size", "4", "3");
        assertThat(proof.verify(head(3), head(8))).isInstanceOfSatisfying(Verdict.Refuted.class, refuted -> {
            assertThat(refuted.code()).isEqualTo("PROOF_INVALID");
            assertThat(refuted.what()).isEqualTo("consistency proof: its checkpoint");
        });
        Checkpoint forged = new Checkpoint(head(3).origin(), 3, Digest.sha256("another history"));
        assertRefuted(proof.verify(forged, head(7)), "consistency proof: older root", forged.root().hex(),
                head(3).root().hex());
    }

    private static void assertRefuted(Verdict verdict, String what, String expected, String got) {
        assertThat(verdict).isEqualTo(new Verdict.Refuted("PROOF_INVALID", what, expected, got, null));
    }

    @Test
    void twoRootsOfOneSizeNeedNoProof() {
        Checkpoint other = new Checkpoint(head(7).origin(), 7, Digest.sha256("another history"));
        assertThat(ConsistencyText.compare(head(7), head(7))).isEqualTo(Verdict.VERIFIED);
        assertThat(ConsistencyText.compare(head(7), other)).isEqualTo(new Verdict.Refuted("EQUIVOCATION",
                "two checkpoints of size 7 of log " + head(7).origin() + ": root", head(7).root().hex(), other.root().hex(), null));
        assertThat(((Verdict.Undecided) ConsistencyText.compare(head(3), head(7))).code()).isEqualTo("PROOF_NEEDED");
        assertThatThrownBy(() -> ConsistencyText.compare(head(7), head(3)))
                .hasMessage("consistency: expected the newer checkpoint to have at least 7 leaves, got 3; name the smaller"
                        + " one first").extracting("code").isEqualTo("CHECKPOINT_ORDER");
        assertThatThrownBy(() -> ConsistencyText.compare(head(3), new Checkpoint("another/log", 7, Digest.ZERO)))
                .hasMessage("consistency: expected two checkpoints of one log, got %s and another/log", head(3).origin())
                .extracting("code").isEqualTo("CHECKPOINT_OTHER_LOG");
    }

    @Test
    void refusesOtherForms() {
        String text = text(3, 7).encode();
        for (String bad : List.of("", text.replace("old 3", "older 3"), text.replace("old 3", "old 03"),
                text.replace("old 3", "old -3"), text.replaceFirst("=\n", "\n"),
                text.replace("old 3\n", "old 3\n" + "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n".repeat(64)),
                text.substring(0, text.indexOf("\n\n")))) {
            assertThatThrownBy(() -> ConsistencyText.parse(bad)).as(bad).isInstanceOf(IntegrityException.class)
                    .extracting("code").isEqualTo("PROOF_FORMAT");
        }
        assertThatThrownBy(() -> ConsistencyText.parse("new 3\n\n")).hasMessage(
                "proof: expected the line old N, then hashes, an empty line and a checkpoint");
        assertThatThrownBy(() -> ConsistencyText.parse(text.replace("old 3", "old 03")))
                .hasMessage("proof: old: expected a decimal number without leading zeros, got \"03\"");
    }

    /// A proof that reads and holds after a change of its text is the proof that was changed; both kinds of proof.
    @Test
    void nothingElseHolds() {
        long seed = 20261202;
        SplittableRandom random = new SplittableRandom(seed);
        String growth = text(5, 13).encode();
        String leaf = new TlogProof(5, InclusionProof.build(log.hashes, 5).path(), head(13).sign(TestLog.KEY)).encode();
        List<NoteVerifier> keys = List.of(TestLog.KEY.verifier());
        for (int i = 0; i < 1000; i++) {
            boolean ofLeaf = random.nextBoolean();
            StringBuilder changed = new StringBuilder(ofLeaf ? leaf : growth);
            int at = random.nextInt(changed.length());
            switch (random.nextInt(3)) {
                case 0 -> changed.setCharAt(at, (char) random.nextInt(1, 0x3000));
                case 1 -> changed.deleteCharAt(at);
                default -> changed.insert(at, (char) random.nextInt(1, 128));
            }
            try {
                if (ofLeaf) {
                    TlogProof proof = TlogProof.parse(changed.toString());
                    boolean holds = proof.verify(log.hashes.get(5), keys).ok();
                    assertThat(!holds || proof.path().equals(TlogProof.parse(leaf).path())).as("seed %d, round %d", seed, i).isTrue();
                } else {
                    ConsistencyText proof = ConsistencyText.parse(changed.toString());
                    boolean holds = proof.verify(head(5), head(13)).ok();
                    assertThat(!holds || proof.path().equals(text(5, 13).path())).as("seed %d, round %d", seed, i).isTrue();
                }
            } catch (IntegrityException e) {
                assertThat(e.code()).matches("(NOTE|PROOF)_.*");
            }
        }
    }
}

package millrace.streams.console;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import millrace.integrity.Digest;
import millrace.integrity.InclusionProof;
import millrace.integrity.Leaf;
import millrace.integrity.MerkleFrontier;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import millrace.integrity.Verdict;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.Schemas;
import millrace.schemas.TenantRef;
import millrace.streams.console.AuditTailView.Taken;
import org.junit.jupiter.api.Test;

class AuditTailViewTest {
    private static final Origin LOG = new Origin("millrace.test", "cluster", "llm.audit", 3, 0);
    private static final Digest SCHEMA = Digest.of(Schemas.ATTESTATION.fingerprint());

    private final AuditTailView view = new AuditTailView();
    private final List<Digest> hashes = new ArrayList<>();

    private static AttestationRecord leaf(Origin origin, long seq) {
        Hash none = Digest.ZERO.toHash();
        return AttestationRecord.newBuilder().setSchemaVersion(3).setLogOrigin(origin.text()).setEpoch(origin.epoch()).setSeq(seq)
                .setPrevLeaf(none).setEvent(AuditEvent.INFERENCE).setTimeMs(1_000 + seq).setInstanceId("i").setRequestId("r-" + seq)
                .setTenantRef(new TenantRef(new byte[16])).setInTopic("llm.prompts").setInPartition(3).setInOffset(seq)
                .setOutTopic("llm.completions").setOutPartition(3).setPromptCommit(none).setCompletionCommit(none).setTokenIdsCommit(none)
                .setPromptTokens(1).setCompletionTokens(1).setFinish(FinishReason.stop).setErrorCode("").setModelName("m")
                .setModelDigest(none).setVerifyMode("off").setTokenizerSha256(none).setTemplateSha256(none).setBuild("1")
                .setBuildSha256(none).setProfile("p").setBackend("b").setKvFormat("f32").setSampler("s").setSeed(0).setTemperatureBits(0)
                .setTopPBits(0).setTopK(0).setMinPBits(0).setRepetitionPenaltyBits(0).setMaxTokens(1).setStopCommit(none).setChecks(0)
                .setMaxBatch(1).setRecomputedSteps(0).setVerdict(AuditVerdict.OK).build();
    }

    private Taken take(Origin origin, long seq) {
        AttestationRecord record = leaf(origin, seq);
        Leaf leaf = Leaf.of(record);
        Taken taken = view.take(record, leaf.hash(), Schemas.ATTESTATION.schema(), SCHEMA, leaf.body());
        if (origin.equals(LOG) && hashes.size() == seq) {
            hashes.add(leaf.hash());
        }
        return taken;
    }

    private static List<Digest> leaves(int count) {
        List<Digest> leaves = new ArrayList<>();
        for (int seq = 0; seq < count; seq++) {
            leaves.add(Leaf.of(leaf(LOG, seq)).hash());
        }
        return leaves;
    }

    private static TreeState state(int size) {
        List<Digest> leaves = leaves(size);
        return new TreeState(LOG, MerkleFrontier.over(leaves), leaves.getLast());
    }

    private Verdict verdict(long seq) {
        AuditTailView.Proven proven = view.prove(LOG.text(), seq).orElseThrow();
        InclusionProof proof = proven.proof().orElseThrow();
        return proof.verify(proven.row().hash(), MerkleFrontier.over(leaves((int) proof.size())).root());
    }

    @Test
    void provesLeavesSinceTheTaskTookTheLogOver() {
        view.began(state(5));
        view.head(LOG.text(), new AuditTailView.Head(8, "note of 8"));
        for (long seq = 2; seq < 5; seq++) {
            assertThat(take(LOG, seq)).as("of before: to be seen, not to be proven").isEqualTo(Taken.NEW);
        }
        for (long seq = 5; seq < 10; seq++) {
            assertThat(take(LOG, seq)).isEqualTo(Taken.NEW);
        }
        assertThat(view.after(0, 100)).extracting(AuditRow::provable)
                .containsExactly(false, false, false, true, true, true, true, true);
        assertThat(verdict(5)).isEqualTo(Verdict.VERIFIED);
        assertThat(verdict(7)).isEqualTo(Verdict.VERIFIED);
        assertThat(view.prove(LOG.text(), 8).orElseThrow().proof()).as("no checkpoint covers it yet").isEmpty();
        view.head(LOG.text(), new AuditTailView.Head(10, "note of 10"));
        assertThat(verdict(9)).isEqualTo(Verdict.VERIFIED);
        view.head(LOG.text(), new AuditTailView.Head(12, "of leaves that have not been read"));
        assertThat(verdict(9)).as("by the checkpoint before it").isEqualTo(Verdict.VERIFIED);
        assertThat(view.prove(LOG.text(), 3).orElseThrow().proof()).isEmpty();
        assertThat(view.prove(LOG.text(), 77)).isEmpty();
    }

    @Test
    void provesAllOfALogThatIsReadFromItsFirstLeaf() {
        view.began(state(5));
        for (long seq = 0; seq < 8; seq++) {
            take(LOG, seq);
        }
        view.head(LOG.text(), new AuditTailView.Head(8, "note"));
        for (long seq = 0; seq < 8; seq++) {
            assertThat(verdict(seq)).isEqualTo(Verdict.VERIFIED);
        }
    }

    @Test
    void asksForWhatItMissedAndKnowsWhatComesTwice() {
        view.began(state(5));
        assertThat(take(LOG, 7)).isEqualTo(Taken.MISSED);
        for (long seq = 4; seq < 8; seq++) {
            assertThat(take(LOG, seq)).isEqualTo(Taken.NEW);
        }
        assertThat(take(LOG, 6)).isEqualTo(Taken.KNOWN);
        assertThat(take(LOG, 9)).isEqualTo(Taken.MISSED);
        view.broke(LOG.text());
        assertThat(take(LOG, 9)).as("seen, and never provable").isEqualTo(Taken.NEW);
        assertThat(view.after(0, 100).getLast().provable()).isFalse();
        view.ended(3);
        assertThat(view.after(0, 100)).isEmpty();
    }

    @Test
    void followsALogIntoItsNextEpoch() {
        view.began(state(2));
        take(LOG, 2);
        Origin next = LOG.nextEpoch();
        view.head(next.text(), new AuditTailView.Head(1, "read before its leaf"));
        assertThat(take(next, 0)).isEqualTo(Taken.NEW);
        AuditTailView.Proven proven = view.prove(next.text(), 0).orElseThrow();
        assertThat(proven.proof().orElseThrow().path()).isEmpty();
        assertThat(proven.head().orElseThrow().size()).isEqualTo(1);
    }

    @Test
    void keepsTheNewestRowsOnly() {
        view.began(state(1));
        for (int seq = 1; seq <= AuditTailView.MOST_ROWS + 10; seq++) {
            take(LOG, seq);
        }
        List<AuditRow> rows = view.after(0, 10_000);
        assertThat(rows).hasSize(AuditTailView.MOST_ROWS);
        assertThat(rows.getLast().leaf().getSeq()).isEqualTo(AuditTailView.MOST_ROWS + 10);
        assertThat(view.after(rows.get(rows.size() - 3).number(), 10)).hasSize(2);
        assertThat(view.after(0, 5)).extracting(row -> row.leaf().getSeq()).last().isEqualTo((long) AuditTailView.MOST_ROWS + 10);
    }
}

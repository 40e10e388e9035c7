package millrace.streams.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.Leaf;
import millrace.integrity.LogVerifier;
import millrace.integrity.NoteSigner;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import millrace.integrity.Verdict;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.FinishReason;
import millrace.schemas.RecordModel;
import org.apache.avro.message.RawMessageEncoder;

/// A log of made-up answers in memory, read by the auditor's verifier: decoding, every check, the tree, the signatures.
final class VerifierRun {
    private static final String TOPIC = "llm.audit";
    private static final int PER_CHECKPOINT = 1_000;
    private static final int SCHEMA_ID = 1;

    private final NoteSigner key = NoteSigner.generate("bench.invalid/log", new SecureRandom());
    private final byte[] salt = Commitment.newSalt(new SecureRandom());
    private final List<byte[]> leaves = new ArrayList<>();

    /// Checkpoint `i` is over the first `1,000 (i + 1)` leaves.
    private final List<byte[]> checkpoints = new ArrayList<>();

    VerifierRun(int count) {
        TreeState state = TreeState.start(new Origin("bench.invalid", "memory", TOPIC, 0, 0));
        for (int i = 0; i < count; i++) {
            Leaf leaf = Leaf.of(record(state));
            leaves.add(leaf.wire(SCHEMA_ID));
            state = state.append(leaf.hash());
            if (state.size() % PER_CHECKPOINT == 0) {
                checkpoints.add(signed(state));
            }
        }
    }

    /// Verifies the whole log.
    ///
    /// @return how many leaves it has
    int verify() {
        LogVerifier verifier = new LogVerifier(TOPIC, List.of(key.verifier()), null);
        for (int i = 0; i < leaves.size(); i++) {
            verifier.leaf(0, i, leaves.get(i));
            if ((i + 1) % PER_CHECKPOINT == 0) {
                int at = i / PER_CHECKPOINT;
                verifier.checkpoint(new Verdict.Place("llm.audit.checkpoints", 0, at), checkpoints.get(at));
            }
        }
        Verdict verdict = verifier.verdict();
        if (!(verdict instanceof Verdict.Verified)) {
            throw new IllegalStateException("a log that was just made: " + verdict);
        }
        return leaves.size();
    }

    private byte[] signed(TreeState state) {
        var head = state.checkpoint();
        return wire(new CheckpointRecord(head.origin(), 0, head.size(), head.root().toHash(), head.sign(key).encode(), 0L));
    }

    private static byte[] wire(CheckpointRecord record) {
        try {
            ByteBuffer body = new RawMessageEncoder<CheckpointRecord>(RecordModel.instance(), record.getSchema()).encode(record);
            return ByteBuffer.allocate(5 + body.remaining()).put((byte) 0).putInt(SCHEMA_ID).put(body).array();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private AttestationRecord record(TreeState state) {
        long seq = state.size();
        Digest some = Digest.sha256("some");
        return AttestationRecord.newBuilder()
                .setLogOrigin(state.origin().text()).setEpoch(state.epoch()).setSeq(seq)
                .setPrevLeaf(state.lastLeaf().toHash()).setEvent(AuditEvent.INFERENCE)
                .setTimeMs(1_800_000_000_000L + seq).setInstanceId("instance-1").setRequestId("request-" + seq)
                .setTenantRef(key.tenantRef("")).setInTopic("llm.prompts").setInPartition(0).setInOffset(seq)
                .setOutTopic("llm.completions").setOutPartition(-1)
                .setPromptCommit(Commitment.prompt(salt, "question " + seq).toHash())
                .setCompletionCommit(Commitment.completion(salt, "answer " + seq).toHash())
                .setTokenIdsCommit(Commitment.tokenIds(salt, List.of(1, 2, (int) seq)).toHash())
                .setPromptTokens(9).setCompletionTokens(3).setFinish(FinishReason.stop).setErrorCode("")
                .setModelName("model").setModelDigest(some.toHash()).setVerifyMode("require")
                .setTokenizerSha256(some.toHash()).setTemplateSha256(some.toHash()).setBuild("bench")
                .setBuildSha256(some.toHash()).setProfile("cpu-strict/v2").setBackend("native").setKvFormat("int8")
                .setSampler("gumbel-philox/v1").setSeed(seq).setTemperatureBits(0).setTopPBits(0).setTopK(0)
                .setMinPBits(0).setRepetitionPenaltyBits(0).setMaxTokens(64)
                .setStopCommit(Commitment.stopList(salt, List.of()).toHash()).setChecks(0b1101101)
                .setMaxBatch(4).setRecomputedSteps(0).setVerdict(AuditVerdict.OK).setWeightFormat("bf16")
                .setLevel(3).setBundleSha256(some.toHash()).setKeyHint(some.toHash())
                .setBlockTableSha256(some.toHash()).setScrubGeneration(2L).setScrubAgeMs(1_500L)
                .setKvPagesVerified(5).setLogitsEvery(32)
                .setLogitsCommit(Commitment.logits(salt, List.of(1)).toHash()).build();
    }
}

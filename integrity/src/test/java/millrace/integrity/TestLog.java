package millrace.integrity;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Consumer;
import millrace.integrity.Verdict.Place;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditPosition;
import millrace.schemas.AuditVerdict;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.ComputeDevice;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.PreviousLog;
import millrace.schemas.RecordModel;
import millrace.schemas.Reply;
import millrace.schemas.Schemas;
import millrace.schemas.Timings;
import millrace.schemas.TokenLogprob;
import millrace.schemas.ToolCall;
import millrace.schemas.TopLogprob;
import millrace.schemas.Usage;
import org.apache.avro.Schema;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.specific.SpecificDatumWriter;
import org.apache.avro.specific.SpecificRecord;
import org.jspecify.annotations.Nullable;

/// A hand-made audit log of one partition, honest until a test makes it otherwise.
public final class TestLog {
    public static final String TOPIC = "millrace.audit";
    public static final String COMPLETIONS = "millrace.completions";
    public static final NoteSigner KEY = key("example.com/millrace", 7);
    public static final byte[] SALT = HexFormat.of().parseHex("0f".repeat(32));
    public static final List<Integer> LOGITS = List.of(0x01020304, -2);
    private static final Digest MODEL = Digest.sha256("model");

    public TreeState state;
    public final List<byte[]> leaves = new ArrayList<>();
    public final List<Digest> hashes = new ArrayList<>();
    public final List<byte[]> checkpoints = new ArrayList<>();
    public final List<byte[]> completions = new ArrayList<>();

    public TestLog(int partition) {
        state = TreeState.start(new Origin("example.com", "Q2x1c3Rlcg", TOPIC, partition, 0));
    }

    /// A key that is the same in every run.
    public static NoteSigner key(String name, int seed) {
        return key(name, NoteKey.Kind.LOG, seed);
    }

    public static NoteSigner witness(String name, int seed) {
        return key(name, NoteKey.Kind.WITNESS, seed);
    }

    private static NoteSigner key(String name, NoteKey.Kind kind, int seed) {
        return NoteSigner.generate(name, kind, new SecureRandom() {
            private static final long serialVersionUID = 1L;

            @Override
            public void nextBytes(byte[] bytes) {
                Arrays.fill(bytes, (byte) seed);
            }
        });
    }

    public static String request(long seq) {
        return "r-" + seq;
    }

    public static String text(long seq) {
        return "answer " + seq;
    }

    /// Text of the response format of every prompt.
    public static final String GUIDE = "{\"type\":\"json_object\"}";

    public static Reply reply(long seq) {
        return new Reply(text(seq), "thought " + seq, List.of(new ToolCall("call_0", "get_time", "{\"zone\":\"UTC\"}")));
    }

    public static List<TokenLogprob> logprobs(long seq) {
        var best = new TopLogprob((int) seq, ByteBuffer.wrap(new byte[] {'a'}), -0.25f);
        return List.of(new TokenLogprob(1, ByteBuffer.wrap(new byte[] {(byte) 0xc3}), -1.5f, List.of(best)),
                new TokenLogprob(2, ByteBuffer.allocate(0), 0f, List.of()));
    }

    private static @Nullable Hash replyCommit(long seq) {
        Digest commitment = ReplyForm.commit(SALT, reply(seq), logprobs(seq));
        return commitment == null ? null : commitment.toHash();
    }

    /// The record that an honest writer would add next.
    public AttestationRecord next() {
        long seq = state.size();
        return AttestationRecord.newBuilder()
                .setLogOrigin(state.origin().text()).setEpoch(state.epoch()).setSeq(seq)
                .setPrevLeaf(state.lastLeaf().toHash()).setEvent(AuditEvent.INFERENCE)
                .setTimeMs(1_800_000_000_000L + seq).setInstanceId("instance-1").setRequestId(request(seq))
                .setTenantRef(KEY.tenantRef("")).setInTopic("millrace.prompts")
                .setInPartition(state.origin().partition()).setInOffset(seq + 100).setOutTopic(COMPLETIONS)
                .setOutPartition(-1)
                .setPromptCommit(Commitment.prompt(SALT, "question " + seq).toHash())
                .setCompletionCommit(Commitment.completion(SALT, text(seq)).toHash())
                .setTokenIdsCommit(Commitment.tokenIds(SALT, List.of(1, 2, (int) seq)).toHash())
                .setPromptTokens(9).setCompletionTokens(3).setFinish(FinishReason.stop).setErrorCode("")
                .setModelName("glm-tiny").setModelDigest(MODEL.toHash()).setVerifyMode("require")
                .setTokenizerSha256(Digest.sha256("tokenizer").toHash())
                .setTemplateSha256(Digest.sha256("template").toHash()).setBuild("0.1.0")
                .setBuildSha256(Digest.ZERO.toHash()).setProfile("strict/1").setBackend("vector").setKvFormat("bf16")
                .setSampler("philox/1").setSeed(seq).setTemperatureBits(Float.floatToRawIntBits(0.7f))
                .setTopPBits(Float.floatToRawIntBits(1f)).setTopK(0).setMinPBits(0)
                .setRepetitionPenaltyBits(Float.floatToRawIntBits(1f)).setMaxTokens(64)
                .setStopCommit(Commitment.stopList(SALT, List.of("\n")).toHash()).setChecks(0b1101101)
                .setMaxBatch(4).setRecomputedSteps(0).setVerdict(AuditVerdict.OK).setWeightFormat("bf16+f32")
                .setLevel(3).setBundleSha256(Digest.sha256("bundle").toHash())
                .setKeyHint(Digest.sha256("key").toHash()).setBlockTableSha256(Digest.sha256("blocks").toHash())
                .setScrubGeneration(2L).setScrubAgeMs(1_500L).setKvPagesVerified(5).setLogitsEvery(2)
                .setLogitsCommit(Commitment.logits(SALT, LOGITS).toHash())
                .setGuideCommit(Commitment.guide(SALT, GUIDE).toHash()).setReplyCommit(replyCommit(seq))
                .setDevice(new ComputeDevice("NVIDIA H200", "9.0", "12.8", Digest.sha256("image").toHash(), false))
                .build();
    }

    public TestLog add() {
        return add(record -> {});
    }

    /// Adds a leaf after the change, with its completion.
    public TestLog add(Consumer<AttestationRecord> change) {
        AttestationRecord record = next();
        change.accept(record);
        Leaf leaf = Leaf.of(record);
        completions.add(wire(completion(record, leaf)));
        return add(leaf);
    }

    private TestLog add(Leaf leaf) {
        return add(leaf.wire(11), leaf.hash());
    }

    private TestLog add(byte[] wire, Digest hash) {
        leaves.add(wire);
        hashes.add(hash);
        state = state.append(hash);
        return this;
    }

    /// Adds a leaf and its completion as version 1 of the schemas wrote them: without formats.
    public TestLog addOld() {
        AttestationRecord record = next();
        record.setSchemaVersion(1);
        record.setLogitsEvery(0);
        record.setLogitsCommit(null);
        record.setGuideCommit(null);
        record.setReplyCommit(null);
        Schema old = Schemas.ATTESTATION.versions().getLast();
        byte[] wire = wire(record, old);
        Digest hash = Leaf.hash(Digest.of(Schemas.fingerprint(old)), Arrays.copyOfRange(wire, WireReader.PREFIX, wire.length));
        Completion completion = completion(record, Leaf.of(record));
        completion.getAudit().setLeaf(hash.toHash());
        completions.add(wire(completion, Schemas.COMPLETION.versions().getLast()));
        return add(wire, hash);
    }

    /// Adds the leaf of something that is no answer: it has no completion.
    public TestLog addEvent(AuditEvent event) {
        AttestationRecord record = next();
        record.setEvent(event);
        record.setRequestId("");
        record.setInTopic("");
        record.setInPartition(-1);
        record.setInOffset(-1);
        record.setOutTopic("");
        record.setDetail("code=EXAMPLE");
        return add(Leaf.of(record));
    }

    public TestLog add(int count) {
        for (int i = 0; i < count; i++) {
            add();
        }
        return this;
    }

    public static Completion completion(AttestationRecord record, Leaf leaf) {
        long seq = record.getSeq();
        return Completion.newBuilder().setRequestId(record.getRequestId()).setModel(record.getModelName())
                .setModelDigest("sha256:" + MODEL.hex()).setText(text(seq))
                .setTokenIds(List.of(1, 2, (int) seq)).setFinishReason(record.getFinish())
                .setUsage(new Usage(9, 3, 0)).setTimings(new Timings(1L, 2L, 3L)).setSeed(record.getSeed())
                .setAudit(new AuditPosition(record.getLogOrigin(),
                        record.getInPartition(), seq, leaf.hash().toHash()))
                .setSalt(ByteBuffer.wrap(SALT)).setKvFormat(record.getKvFormat())
                .setWeightFormat(record.getWeightFormat()).setLogitsEvery(record.getLogitsEvery())
                .setLogitsDigests(record.getLogitsCommit() == null ? null : LOGITS)
                .setReply(record.getReplyCommit() == null ? null : reply(seq))
                .setLogprobs(record.getReplyCommit() == null ? null : logprobs(seq)).build();
    }

    /// Signs the tree as it is now.
    public TestLog checkpoint() {
        return checkpoint(state.checkpoint().sign(KEY));
    }

    public TestLog checkpoint(SignedNote note) {
        return checkpoint(note.encode());
    }

    /// A checkpoint record with this note's text, its other fields as an honest writer fills them.
    public TestLog checkpoint(String note) {
        Checkpoint head = state.checkpoint();
        checkpoints.add(wire(new CheckpointRecord(head.origin(), state.origin().partition(), head.size(),
                head.root().toHash(), note, 1_800_000_000_000L)));
        return this;
    }

    /// Adds a leaf that is no answer.
    public TestLog event(AuditEvent event, Consumer<AttestationRecord> change) {
        AttestationRecord record = next();
        record.setEvent(event);
        record.setInOffset(-1);
        change.accept(record);
        return add(Leaf.of(record));
    }

    /// Begins the next epoch with its EPOCH_START leaf.
    public TestLog nextEpoch(Consumer<AttestationRecord> change) {
        Checkpoint before = state.checkpoint();
        state = TreeState.start(state.origin().nextEpoch());
        AttestationRecord record = next();
        record.setEvent(AuditEvent.EPOCH_START);
        record.setInOffset(-1);
        record.setPreviousLog(new PreviousLog(before.origin(), before.size(), before.root().toHash(), "STATE_LOST"));
        change.accept(record);
        return add(Leaf.of(record));
    }

    public static byte[] wire(SpecificRecord record) {
        return wire(record, record.getSchema());
    }

    /// @param schema the record's, or one that has the first of its fields
    static byte[] wire(SpecificRecord record, Schema schema) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes(new byte[] {0, 0, 0, 0, 12});
        try {
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            new SpecificDatumWriter<SpecificRecord>(schema, RecordModel.instance()).write(record, encoder);
            encoder.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return out.toByteArray();
    }

    /// A verifier that has been given everything, checkpoints first.
    public LogVerifier verifier(NoteVerifier... keys) {
        LogVerifier verifier = new LogVerifier(TOPIC, List.of(keys), null);
        feed(verifier);
        return verifier;
    }

    public void feed(LogVerifier verifier) {
        for (int i = 0; i < checkpoints.size(); i++) {
            verifier.checkpoint(new Place("millrace.checkpoints", state.origin().partition(), i), checkpoints.get(i));
        }
        for (int i = 0; i < leaves.size(); i++) {
            // Offsets have gaps, as transaction markers make them.
            verifier.leaf(state.origin().partition(), 2L * i, leaves.get(i));
        }
    }

    public Verdict verdict() {
        return verifier(KEY.verifier()).verdict();
    }
}

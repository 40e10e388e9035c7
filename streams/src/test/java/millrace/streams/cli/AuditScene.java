package millrace.streams.cli;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import millrace.integrity.Checkpoint;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.Leaf;
import millrace.integrity.NoteSigner;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditPosition;
import millrace.schemas.AuditVerdict;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Hash;
import millrace.schemas.RecordModel;
import millrace.schemas.Timings;
import millrace.schemas.Usage;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.specific.SpecificDatumWriter;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import picocli.CommandLine;

/// A log made by hand on a real broker, with its checkpoints and completions, on topics of its own.
final class AuditScene implements AutoCloseable {
    static final byte[] SALT = new byte[Commitment.SALT_BYTES];
    static final NoteSigner KEY = NoteSigner.generate("example.com/log", new SecureRandom());
    private static final Hash MODEL = Digest.sha256("model").toHash();

    final String audit;
    final String checkpoints;
    final String completions;
    final KafkaProducer<byte[], byte[]> producer;
    private final EmbeddedBroker broker;
    private final String name;
    TreeState state;
    /// Whether later leaves are those of another history.
    boolean fork;

    AuditScene(EmbeddedBroker broker, String name) throws Exception {
        this(broker, name, true);
    }

    private AuditScene(EmbeddedBroker broker, String name, boolean create) throws Exception {
        this.broker = broker;
        this.name = name;
        audit = name + ".audit";
        checkpoints = name + ".checkpoints";
        completions = name + ".completions";
        state = TreeState.start(new Origin("example.com", "cluster", audit, 1, 0));
        if (create) {
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
                for (String topic : List.of(audit, checkpoints, completions)) {
                    create(admin, new NewTopic(topic, 2, (short) 1));
                }
            }
        }
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", broker.bootstrap(), "transactional.id", name),
                new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
    }

    /// A writer that begins the same log anew, on topics that are there.
    AuditScene again() throws Exception {
        return new AuditScene(broker, name, false);
    }

    /// Sends a leaf and its completion; to be called inside a transaction.
    void answer() {
        long seq = state.size();
        send(completions, (int) (seq % 2), leafAlone());
    }

    /// Sends a leaf and returns its completion.
    byte[] leafAlone() {
        AttestationRecord record = attestation(state, completions);
        if (fork) {
            record.setBuild("another build");
        }
        Leaf leaf = Leaf.of(record);
        send(audit, 1, leaf.wire(1));
        state = state.append(leaf.hash());
        return wire(completion(record, leaf));
    }

    void checkpoint() {
        Checkpoint head = state.checkpoint();
        send(checkpoints, 1, wire(new CheckpointRecord(head.origin(), 1, head.size(), head.root().toHash(),
                head.sign(KEY).encode(), 0L)));
    }

    void commit(Runnable body) {
        producer.beginTransaction();
        body.run();
        producer.commitTransaction();
    }

    void send(String topic, int partition, byte[] value) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    @Override
    public void close() {
        producer.close();
    }

    /// A command on this log.
    String[] on(String[] arguments, String... more) {
        return with(with(arguments, "--bootstrap", broker.bootstrap(), "--topic", audit, "--checkpoints-topic",
                checkpoints), more);
    }

    String[] verify(String... more) {
        List<String> arguments = new ArrayList<>(List.of("verify", "--bootstrap", broker.bootstrap(), "--topic", audit,
                "--checkpoints-topic", checkpoints, "--completions-topic", completions));
        arguments.addAll(List.of(more));
        return arguments.toArray(String[]::new);
    }

    /// Creates a topic; on a busy machine the broker may be fenced for a moment, so it tries for a while.
    static void create(Admin admin, NewTopic topic) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                admin.createTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
                return;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof InvalidReplicationFactorException) || attempt == 30) {
                    throw e;
                }
                Thread.sleep(1_000);
            }
        }
    }

    static String[] with(String[] arguments, String... more) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }

    static AttestationRecord attestation(TreeState state, String completions) {
        long seq = state.size();
        return AttestationRecord.newBuilder().setLogOrigin(state.origin().text()).setEpoch(0).setSeq(seq)
                .setPrevLeaf(state.lastLeaf().toHash()).setEvent(AuditEvent.INFERENCE).setTimeMs(0).setInstanceId("i")
                .setRequestId("r-" + seq).setTenantRef(KEY.tenantRef("")).setInTopic("prompts").setInPartition(1)
                .setInOffset(seq).setOutTopic(completions).setOutPartition(-1)
                .setPromptCommit(Commitment.prompt(SALT, "q").toHash())
                .setCompletionCommit(Commitment.completion(SALT, "a" + seq).toHash())
                .setTokenIdsCommit(Commitment.tokenIds(SALT, List.of(1)).toHash()).setPromptTokens(1)
                .setCompletionTokens(1).setFinish(FinishReason.stop).setErrorCode("").setModelName("m")
                .setModelDigest(MODEL).setVerifyMode("digest_pinned").setTokenizerSha256(MODEL).setTemplateSha256(MODEL)
                .setBuild("b").setBuildSha256(MODEL).setProfile("p").setBackend("scalar").setKvFormat("f32")
                .setSampler("s").setSeed(0).setTemperatureBits(0).setTopPBits(0).setTopK(0).setMinPBits(0)
                .setRepetitionPenaltyBits(0).setMaxTokens(1).setStopCommit(Commitment.stopList(SALT, List.of()).toHash())
                .setChecks(0).setMaxBatch(1).setRecomputedSteps(0).setVerdict(AuditVerdict.OK).build();
    }

    static Completion completion(AttestationRecord record, Leaf leaf) {
        return Completion.newBuilder().setRequestId(record.getRequestId()).setModel("m")
                .setModelDigest("sha256:" + Digest.of(MODEL).hex()).setText("a" + record.getSeq())
                .setFinishReason(FinishReason.stop).setUsage(new Usage(1, 1, 0)).setTimings(new Timings(0L, 0L, 0L))
                .setSeed(0).setAudit(new AuditPosition(record.getLogOrigin(), 1, record.getSeq(), leaf.hash().toHash()))
                .setSalt(ByteBuffer.wrap(SALT)).build();
    }

    static byte[] wire(SpecificRecord record) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.writeBytes(new byte[] {0, 0, 0, 0, 1});
        try {
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            new SpecificDatumWriter<SpecificRecord>(record.getSchema(), RecordModel.instance()).write(record, encoder);
            encoder.flush();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return out.toByteArray();
    }

    /// What a command printed, and how it ended.
    record Ran(int exitCode, String out, String err) {}

    static Ran run(String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int exitCode = new CommandLine(new AuditCommand()).setOut(new PrintWriter(out)).setErr(new PrintWriter(err))
                .execute(arguments);
        return new Ran(exitCode, out.toString(), err.toString());
    }
}

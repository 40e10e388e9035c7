package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import millrace.integrity.Checkpoint;
import millrace.integrity.Commitment;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Leaf;
import millrace.integrity.NoteSigner;
import millrace.integrity.Origin;
import millrace.integrity.TreeState;
import millrace.integrity.audit.AuditTopicCheck;
import millrace.integrity.audit.AuditTopicCheck.Requirements;
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
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// The auditor's commands against a real broker, with a log made by hand: what a transaction leaves behind, what is
/// late, what is missing.
class AuditCommandIT {
    private static final byte[] SALT = new byte[Commitment.SALT_BYTES];
    private static final NoteSigner KEY = NoteSigner.generate("example.com/log", new SecureRandom());
    private static final Hash MODEL = Digest.sha256("model").toHash();

    private static EmbeddedBroker broker;

    @TempDir
    private Path directory;

    @BeforeAll
    static void start() {
        broker = EmbeddedBroker.ephemeral("127.0.0.1", 0);
    }

    @AfterAll
    static void stop() {
        broker.close();
    }

    /// Creates a topic; on a busy machine the broker may be fenced for a moment, so it tries for a while.
    private static void create(Admin admin, NewTopic topic) throws Exception {
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

    /// A log, its checkpoints and completions, on topics of its own.
    private static final class Scene implements AutoCloseable {
        final String audit;
        final String checkpoints;
        final String completions;
        final KafkaProducer<byte[], byte[]> producer;
        TreeState state;

        Scene(String name) throws Exception {
            audit = name + ".audit";
            checkpoints = name + ".checkpoints";
            completions = name + ".completions";
            state = TreeState.start(new Origin("example.com", "cluster", audit, 1, 0));
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
                for (String topic : List.of(audit, checkpoints, completions)) {
                    create(admin, new NewTopic(topic, 2, (short) 1));
                }
            }
            producer = new KafkaProducer<>(Map.of("bootstrap.servers", broker.bootstrap(), "transactional.id", name),
                    new ByteArraySerializer(), new ByteArraySerializer());
            producer.initTransactions();
        }

        /// Sends a leaf and its completion; to be called inside a transaction.
        void answer() {
            long seq = state.size();
            send(completions, (int) (seq % 2), leafAlone());
        }

        /// Sends a leaf and returns its completion.
        byte[] leafAlone() {
            AttestationRecord record = attestation(state, completions);
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

        private void send(String topic, int partition, byte[] value) {
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
    }

    private static AttestationRecord attestation(TreeState state, String completions) {
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

    private static Completion completion(AttestationRecord record, Leaf leaf) {
        return Completion.newBuilder().setRequestId(record.getRequestId()).setModel("m")
                .setModelDigest("sha256:" + Digest.of(MODEL).hex()).setText("a" + record.getSeq())
                .setFinishReason(FinishReason.stop).setUsage(new Usage(1, 1, 0)).setTimings(new Timings(0L, 0L, 0L))
                .setSeed(0).setAudit(new AuditPosition(record.getLogOrigin(), 1, record.getSeq(), leaf.hash().toHash()))
                .setSalt(ByteBuffer.wrap(SALT)).build();
    }

    private static byte[] wire(SpecificRecord record) {
        java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
        out.writeBytes(new byte[] {0, 0, 0, 0, 1});
        try {
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            new SpecificDatumWriter<SpecificRecord>(record.getSchema(), RecordModel.instance()).write(record, encoder);
            encoder.flush();
        } catch (java.io.IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
        return out.toByteArray();
    }

    /// What a command printed, and how it ended.
    private record Ran(int exitCode, String out, String err) {}

    private static Ran run(String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int exitCode = new CommandLine(new AuditCommand()).setOut(new PrintWriter(out)).setErr(new PrintWriter(err))
                .execute(arguments);
        return new Ran(exitCode, out.toString(), err.toString());
    }

    @Test
    void verifiesPassesOverAbortedRecordsAndProves() throws Exception {
        try (Scene scene = new Scene("honest")) {
            for (int i = 0; i < 20; i++) {
                scene.commit(scene::answer);
            }
            TreeState before = scene.state;
            scene.producer.beginTransaction();
            scene.answer();
            scene.answer();
            scene.producer.abortTransaction();
            scene.state = before;
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            scene.commit(scene::answer);
            Ran verified = run(scene.verify("--key", KEY.vkey(), "--json"));
            assertThat(verified.out()).startsWith("{\"verdict\":\"ok\",\"leaves\":22,\"checkpoints\":1,\"completions\":22,"
                    + "\"matched\":22,\"expired\":0,\"partitions\":2,\"tail_leaves\":1,\"signatures_checked\":true,"
                    + "\"completions_checked\":true,");
            assertThat(verified.exitCode()).isZero();
            assertThat(run(scene.verify("--partition", "1", "--skip-completions")).out())
                    .contains("signatures NOT checked", "completions NOT checked", "verdict: ok");
            provesAndChecks(scene);
        }
    }

    private void provesAndChecks(Scene scene) throws Exception {
        Path proof = directory.resolve("r-7.proof");
        Path keys = Files.writeString(directory.resolve("log.pub"), "# the log's key\n" + KEY.vkey() + "\n");
        Ran proven = run("prove", "--bootstrap", broker.bootstrap(), "--topic", scene.audit, "--checkpoints-topic",
                scene.checkpoints, "--key", keys.toString(), "--partition", "1", "--request-id", "r-7", "--output",
                proof.toString());
        assertThat(proven.exitCode()).as(proven.err()).isZero();
        String leaf = proven.err().strip().replaceAll(".* leaf ", "");
        assertThat(run("check-proof", proof.toString(), "--leaf", leaf, "--key", keys.toString()))
                .isEqualTo(new Ran(0, "proof: ok" + System.lineSeparator(), ""));
        assertThat(run("check-proof", proof.toString(), "--leaf", "0".repeat(64), "--key", keys.toString()).exitCode())
                .isEqualTo(1);
        assertThat(run("prove", "--bootstrap", broker.bootstrap(), "--topic", scene.audit, "--checkpoints-topic",
                scene.checkpoints, "--partition", "1", "--request-id", "nobody").err())
                .startsWith("millrace: PROVE_NOT_FOUND: ");
    }

    /// Two checkpoints that someone kept, against the leaves, against a proof in a file, and against a rewritten log.
    @Test
    void showsThatALogOnlyGrew() throws Exception {
        Path old = directory.resolve("old.note");
        Path newer = directory.resolve("new.note");
        Path proof = directory.resolve("growth.proof");
        try (Scene scene = new Scene("grown")) {
            for (int i = 0; i < 9; i++) {
                scene.commit(scene::answer);
                Files.writeString(i < 5 ? old : newer, scene.state.checkpoint().sign(KEY).encode());
            }
            scene.commit(scene::checkpoint);
            String[] files = {"consistency", "--old", old.toString(), "--new", newer.toString(), "--key", KEY.vkey()};
            Ran made = run(scene.on(files, "--output", proof.toString(), "--json"));
            assertThat(made).as(made.err()).extracting(Ran::exitCode, Ran::out).containsExactly(0, "{\"verdict\":\"ok\","
                    + "\"origin\":\"example.com/cluster/grown.audit/1/0\",\"old_size\":5,\"new_size\":9,"
                    + "\"signatures_checked\":true}" + System.lineSeparator());
            assertThat(run(with(files, "--proof", proof.toString())))
                    .isEqualTo(new Ran(0, "consistency of 5 and 9 leaves: ok" + System.lineSeparator(), ""));
            Files.writeString(old, new Checkpoint(scene.state.origin().text(), 5, Digest.sha256("another history"))
                    .sign(KEY).encode());
            assertThat(run(scene.on(files))).extracting(Ran::exitCode).isEqualTo(1);
            assertThat(run(scene.on(files)).out()).contains("VIOLATED: LOG_ROOT: checkpoint of size 5 of log");
            assertThat(run(with(files, "--proof", proof.toString())).out()).contains("VIOLATED: PROOF_INVALID: ");
            Files.writeString(old, new Checkpoint(scene.state.origin().text(), 9, Digest.sha256("another history"))
                    .sign(KEY).encode());
            assertThat(run(with(files, "--json"))).extracting(Ran::exitCode).isEqualTo(1);
            assertThat(run(with(files, "--json")).out()).contains("\"violation\":{\"code\":\"EQUIVOCATION\",");
        }
    }

    private static String[] with(String[] arguments, String... more) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }

    @Test
    void makesTheKeyOfAWitness() {
        Path file = directory.resolve("witness.key");
        Ran made = run("keygen", "--witness", "--name", "witness.example.org", file.toString(), "--json");
        assertThat(made.exitCode()).isZero();
        assertThat(made.out()).startsWith("{\"verdict\":\"ok\",\"vkey\":\"witness.example.org+").contains("\"kind\":\"witness\"");
        Ran wrongKind = run("verify", "--bootstrap", broker.bootstrap(), "--key", file.toString());
        assertThat(wrongKind.exitCode()).isEqualTo(3);
        assertThat(wrongKind.err()).startsWith("millrace: NOTE_KEY_KIND: --key: expected the key of a log, got witness.example.org+");
    }

    @Test
    void waitsForTheOtherHalfOfWhatItSaw() throws Exception {
        try (Scene scene = new Scene("late")) {
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            byte[][] late = new byte[1][];
            scene.commit(() -> late[0] = scene.leafAlone());
            Ran missing = run(scene.verify("--settle-ms", "300", "--json"));
            assertThat(missing.exitCode()).isEqualTo(1);
            assertThat(missing.out()).contains("\"code\":\"RECON_COMPLETION_MISSING\"", "\"topic\":\"late.audit\"",
                    "\"partition\":1");
            Thread other = Thread.ofVirtual().start(() -> {
                pause();
                scene.commit(() -> scene.send(scene.completions, 0, late[0]));
            });
            Ran verified = run(scene.verify("--settle-ms", "30000", "--json"));
            assertThat(verified.out()).startsWith("{\"verdict\":\"ok\",").contains("\"matched\":2,");
            other.join();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(1_500);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void namesTheFirstViolation() throws Exception {
        try (Scene scene = new Scene("forged")) {
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            scene.state = TreeState.start(scene.state.origin()).append(Digest.sha256("another first leaf"));
            scene.commit(scene::answer);
            Ran forged = run(scene.verify("--key", KEY.vkey(), "--settle-ms", "0"));
            assertThat(forged.exitCode()).isEqualTo(1);
            assertThat(forged.out()).containsPattern("verdict: VIOLATED .*\n  forged.audit-1@\\d+: LOG_PREV_LEAF: leaf:"
                    + " prev_leaf: expected [0-9a-f]{64}, got " + Digest.sha256("another first leaf").hex());
        }
    }

    @Test
    void cannotDecideWhatIsNotThere() throws Exception {
        try (Scene scene = new Scene("empty")) {
            Ran empty = run(scene.verify("--settle-ms", "0"));
            assertThat(empty.exitCode()).isEqualTo(2);
            assertThat(empty.out()).contains("LOG_EMPTY: topic empty.audit holds no leaves; is it the audit topic?");
        }
    }

    @Test
    void endsWithThreeForWhatTheUserCanMend() throws Exception {
        assertThat(run("verify", "--bootstrap", broker.bootstrap(), "--topic", "nothing").err())
                .startsWith("millrace: AUDIT_TOPIC_MISSING: topic nothing: expected it to exist;");
        assertThat(run("verify", "--no-such-option").exitCode()).isEqualTo(3);
        assertThat(run("verify", "--bootstrap", broker.bootstrap(), "--key", "nonsense"))
                .extracting(Ran::exitCode, Ran::err).containsExactly(3, "millrace: NOTE_KEY: --key: expected"
                        + " name+id+base64 or an existing file, got \"nonsense\"" + System.lineSeparator());
        assertThat(run("check-proof", directory.resolve("none").toString(), "--leaf", "0".repeat(64), "--key", KEY.vkey())
                .exitCode()).isEqualTo(3);
        assertThat(run().exitCode()).isEqualTo(3);
    }

    @Test
    void refusesATopicThatIsCompacted() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
            create(admin, new NewTopic("weak", 1, (short) 1)
                    .configs(Map.of("cleanup.policy", "compact", "retention.ms", "-1")));
            assertRefused(() -> AuditTopicCheck.check(admin, List.of("weak"), 1, Requirements.SINGLE_NODE),
                    "AUDIT_TOPIC_UNSAFE", "topic weak: cleanup.policy: expected delete, got compact; change the topic's"
                            + " configuration, or state that this is a single node");
            assertRefused(() -> AuditTopicCheck.check(admin, List.of("absent"), 1, Requirements.SINGLE_NODE),
                    "AUDIT_TOPIC_MISSING", "topic absent: expected it to exist; create it, or let the service do so");
        }
    }

    private static void assertRefused(ThrowingCallable call, String code, String message) {
        org.assertj.core.api.Assertions.assertThatThrownBy(call).isInstanceOf(IntegrityException.class)
                .hasMessage(message).extracting("code").isEqualTo(code);
    }
}

package millrace.streams.cli;

import static millrace.streams.cli.AuditScene.KEY;
import static millrace.streams.cli.AuditScene.attestation;
import static millrace.streams.cli.AuditScene.completion;
import static millrace.streams.cli.AuditScene.create;
import static millrace.streams.cli.AuditScene.run;
import static millrace.streams.cli.AuditScene.wire;
import static millrace.streams.cli.AuditScene.with;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import millrace.integrity.Checkpoint;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.Leaf;
import millrace.integrity.TreeState;
import millrace.integrity.audit.AuditTopicCheck;
import millrace.integrity.audit.AuditTopicCheck.Requirements;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import millrace.streams.cli.AuditScene.Ran;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The auditor's commands against a real broker, with a log made by hand: what a transaction leaves behind, what is
/// late, what is missing.
class AuditCommandIT {
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

    @Test
    void verifiesPassesOverAbortedRecordsAndProves() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "honest")) {
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
                    + "\"matched\":22,\"expired\":0,\"pruned\":0,\"partitions\":2,\"tail_leaves\":1,\"signatures_checked\":true,"
                    + "\"completions_checked\":true,");
            assertThat(verified.exitCode()).isZero();
            assertThat(run(scene.verify("--partition", "1", "--skip-completions")).out())
                    .contains("signatures NOT checked", "completions NOT checked", "verdict: ok");
            provesAndChecks(scene);
        }
    }

    private void provesAndChecks(AuditScene scene) throws Exception {
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
        Ran unknown = run("prove", "--bootstrap", broker.bootstrap(), "--topic", scene.audit, "--checkpoints-topic",
                scene.checkpoints, "--partition", "1", "--request-id", "nobody");
        assertThat(unknown.exitCode()).isEqualTo(2);
        assertThat(unknown.out()).startsWith("proof: undecided: PROVE_NOT_FOUND: expected a leaf of that request, got none in honest.audit");
        Ran early = run("prove", "--bootstrap", broker.bootstrap(), "--topic", scene.audit, "--checkpoints-topic",
                scene.checkpoints, "--partition", "1", "--request-id", "r-21", "--json");
        assertThat(early.exitCode()).isEqualTo(2);
        assertThat(early.out()).startsWith("{\"verdict\":\"undecided\",\"code\":\"PROVE_NO_CHECKPOINT\",\"why\":\"expected a checkpoint that covers leaf 21 ");
    }

    /// Every kind of mismatch at once: each is listed with its place, and what follows it is looked at too.
    @Test
    void listsEverythingThatDoesNotMatch() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "mixed")) {
            byte[][] kept = new byte[1][];
            scene.commit(scene::answer);
            scene.commit(() -> scene.leafAlone());                                        // missing
            scene.commit(() -> scene.send(scene.completions, 0, kept[0] = scene.leafAlone()));
            scene.commit(() -> scene.send(scene.completions, 1, kept[0]));                // duplicate
            scene.commit(() -> scene.send(scene.completions, 0, new byte[] {0, 1}));      // undecodable
            AttestationRecord never = attestation(scene.state, scene.completions);
            never.setSeq(77);
            scene.commit(() -> scene.send(scene.completions, 0, wire(completion(never, Leaf.of(never))))); // orphan
            scene.commit(() -> scene.send(scene.completions, 1, wire(altered(scene, "another text"))));
            Ran listed = run(scene.on(new String[] {"reconcile", "--completions-topic", scene.completions, "--settle-ms",
                "100", "--json"}));
            assertThat(listed.exitCode()).as(listed.err()).isEqualTo(1);
            assertThat(listed.out()).contains("\"counts\":{\"missing\":1,\"orphan\":1,\"duplicate\":1,\"wrong_topic\":0,"
                    + "\"digest_mismatch\":1,\"differs\":0,\"undecodable\":1}",
                    "\"code\":\"RECON_COMPLETION_MISSING\"", "\"code\":\"RECON_DUPLICATE\"");
            assertThat(run(scene.on(new String[] {"reconcile", "--completions-topic", scene.completions, "--settle-ms",
                "100", "--since", "1s"})).exitCode()).isEqualTo(1);
        }
    }

    /// The completion of the next leaf, with another text than the leaf commits to.
    private static Completion altered(AuditScene scene, String text) {
        AttestationRecord record = attestation(scene.state, scene.completions);
        Leaf leaf = Leaf.of(record);
        scene.send(scene.audit, 1, leaf.wire(1));
        scene.state = scene.state.append(leaf.hash());
        Completion completion = completion(record, leaf);
        completion.setText(text);
        return completion;
    }

    /// Two checkpoints that someone kept, against the leaves, against a proof in a file, and against a rewritten log.
    @Test
    void showsThatALogOnlyGrew() throws Exception {
        Path old = directory.resolve("old.note");
        Path newer = directory.resolve("new.note");
        Path proof = directory.resolve("growth.proof");
        try (AuditScene scene = new AuditScene(broker, "grown")) {
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
        try (AuditScene scene = new AuditScene(broker, "late")) {
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
        try (AuditScene scene = new AuditScene(broker, "forged")) {
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            scene.state = TreeState.start(scene.state.origin()).append(Digest.sha256("another first leaf"));
            scene.commit(scene::answer);
            Ran forged = run(scene.verify("--key", KEY.vkey(), "--settle-ms", "0"));
            assertThat(forged.exitCode()).isEqualTo(1);
            assertThat(forged.out()).containsPattern("verdict: VIOLATED .*\n  forged.audit-1@\\d+: LOG_PREV_LEAF: leaf:"
                    + " prev_leaf: expected [0-9a-f]{64}, got " + Digest.sha256("another first leaf").hex());
            Ran unproven = run(scene.on(new String[] {"prove", "--partition", "1", "--request-id", "r-0", "--json"}));
            assertThat(unproven.exitCode()).isEqualTo(1);
            assertThat(unproven.out()).startsWith("{\"verdict\":\"violated\",\"violation\":{\"code\":\"LOG_PREV_LEAF\",")
                    .contains("\"topic\":\"forged.audit\",\"partition\":1,\"offset\":").doesNotContain("\"proof\"");
        }
    }

    @Test
    void cannotDecideWhatIsNotThere() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "empty")) {
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
                    .configs(Map.of("cleanup.policy", "compact", "retention.ms", "-1", "message.timestamp.type", "LogAppendTime")));
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

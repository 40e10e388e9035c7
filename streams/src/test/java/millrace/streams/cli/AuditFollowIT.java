package millrace.streams.cli;

import static millrace.streams.cli.AuditScene.KEY;
import static millrace.streams.cli.AuditScene.run;
import static millrace.streams.cli.AuditScene.with;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.Checkpoint;
import millrace.integrity.Digest;
import millrace.integrity.FollowState;
import millrace.integrity.FollowStateFile;
import millrace.integrity.Leaf;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.SuspectRange;
import millrace.streams.cli.AuditScene.Ran;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Monitor and witness against a real broker: growth, restarts, backups, and a log that is rewritten behind their back.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class AuditFollowIT {
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

    private String vkeyOfWitness() {
        Path key = directory.resolve("witness.key");
        if (!Files.exists(key)) {
            run("keygen", "--witness", "--name", "witness.example.org", key.toString());
        }
        return run("keygen", "--show", key.toString()).out().strip();
    }

    /// `follow --once` as a witness.
    private Ran witness(AuditScene scene) {
        vkeyOfWitness();
        return run(scene.on(with(follow(scene), "--once", "--witness-key", directory.resolve("witness.key").toString(),
                "--cosignatures-topic", scene.audit + ".cosigs", "--state", directory.resolve("witness.state").toString())));
    }

    private static String[] follow(AuditScene scene) {
        return new String[] {"follow", "--key", KEY.vkey(), "--completions-topic", scene.completions, "--settle-ms", "400"};
    }

    @Test
    void cosignsWhatGrowsAndVerifyDemandsIt() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "witnessed")) {
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            Ran first = witness(scene);
            assertThat(first).as(first.err()).extracting(Ran::exitCode).isEqualTo(0);
            assertThat(first.out()).startsWith("cosigned example.com/cluster/witnessed.audit/1/0, size 1\n").contains("verdict: ok");
            assertThat(witness(scene).out()).as("signed once").doesNotContain("cosigned example");
            scene.commit(scene::answer);
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            scene.commit(scene::answer);
            assertThat(witness(scene).out()).startsWith("cosigned example.com/cluster/witnessed.audit/1/0, size 3\n");
            Ran verified = run(scene.verify("--key", KEY.vkey(), "--witness", vkeyOfWitness(), "--cosignatures-topic",
                    scene.audit + ".cosigs", "--json"));
            assertThat(verified).as(verified.out()).extracting(Ran::exitCode).isEqualTo(0);
            assertThat(verified.out()).contains("\"witnessed\":3");
            Ran missing = run(scene.verify("--key", KEY.vkey(), "--witness", otherWitness(), "--witness", vkeyOfWitness(),
                    "--cosignatures-topic", scene.audit + ".cosigs", "--settle-ms", "0"));
            assertThat(missing.exitCode()).isEqualTo(2);
            assertThat(missing.out()).contains("WITNESS_MISSING: log example.com/cluster/witnessed.audit/1/0: expected"
                    + " cosignatures of 2 of [").contains("got 1");
            assertThat(run(scene.verify("--key", KEY.vkey(), "--witness", otherWitness(), "--witness", vkeyOfWitness(),
                    "--quorum", "1", "--cosignatures-topic", scene.audit + ".cosigs")).exitCode()).isZero();
        }
    }

    private String otherWitness() {
        Path key = directory.resolve("other.key");
        return (Files.exists(key) ? run("keygen", "--show", key.toString())
                : run("keygen", "--witness", "--name", "other.example.org", key.toString())).out().strip();
    }

    /// A witness whose state comes from a backup takes up what it has published since, and signs nothing twice.
    @Test
    void takesUpWhatItPublishedWhenItsStateIsOld() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "backup")) {
            Path state = directory.resolve("witness.state");
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            assertThat(witness(scene).exitCode()).isZero();
            Path backup = Files.copy(state, directory.resolve("backup"));
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            assertThat(witness(scene).out()).contains("cosigned").contains("size 2");
            String newest = Files.readString(state);
            Files.delete(state);
            Files.copy(backup, state);
            Ran restored = witness(scene);
            assertThat(restored.exitCode()).isZero();
            assertThat(restored.err()).contains("the state file is behind what this witness has published");
            assertThat(restored.out()).doesNotContain("cosigned example");
            assertThat(FollowState.parse(Files.readString(state)).head(scene.state.origin().text()))
                    .isEqualTo(FollowState.parse(newest).head(scene.state.origin().text()));
            Files.writeString(state, newest.replaceFirst("note", "n0te"));
            assertThat(witness(scene)).extracting(Ran::exitCode).isEqualTo(3);
            assertThat(witness(scene).err()).startsWith("millrace: FOLLOW_STATE: state file ");
        }
    }

    /// The operator cuts the log off, or writes it anew with the same key: everything in the cluster agrees, and only who
    /// remembers finds it.
    @Test
    void findsALogThatWasRewrittenBetweenTwoRuns() throws Exception {
        AuditScene scene = new AuditScene(broker, "rewritten");
        Path state = directory.resolve("monitor.state");
        Digest root;
        try (scene) {
            for (int i = 0; i < 5; i++) {
                scene.commit(scene::answer);
            }
            scene.commit(scene::checkpoint);
            root = scene.state.frontier().root();
            assertThat(once(scene, state).exitCode()).isZero();
        }
        String remembered = Files.readString(state);
        recreate(List.of(scene.audit, scene.checkpoints, scene.completions));
        try (AuditScene shorter = scene.again()) {
            shorter.commit(shorter::answer);
            shorter.commit(shorter::checkpoint);
            assertThat(run(shorter.verify("--key", KEY.vkey())).exitCode()).as("nothing else tells").isZero();
            Ran cut = once(shorter, state);
            assertThat(cut.exitCode()).isEqualTo(1);
            assertThat(cut.out()).contains("rewritten.audit-1: LOG_ROLLED_BACK: log example.com/cluster/rewritten.audit/1/0,"
                    + " seen before with root " + root + ": expected at least 5 leaves, got 1, root "
                    + shorter.state.frontier().root());
            shorter.fork = true;
            for (int i = 0; i < 6; i++) {
                shorter.commit(shorter::answer);
            }
            shorter.commit(shorter::checkpoint);
            Ran forked = once(shorter, state);
            assertThat(forked.exitCode()).isEqualTo(1);
            assertThat(forked.out()).contains("state file-1: LOG_ROOT: checkpoint of size 5 of log"
                    + " example.com/cluster/rewritten.audit/1/0: root: expected ").contains("got " + root);
        }
        assertThat(Files.readString(state)).as("a violation is not remembered as good").isEqualTo(remembered);
    }

    private Ran once(AuditScene scene, Path state) {
        return run(scene.on(with(follow(scene), "--once", "--state", state.toString())));
    }

    private static void recreate(List<String> topics) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
            admin.deleteTopics(topics).all().get(30, TimeUnit.SECONDS);
            for (String topic : topics) {
                for (int attempt = 0; admin.listTopics().names().get().contains(topic) && attempt < 300; attempt++) {
                    Thread.sleep(100);
                }
                AuditScene.create(admin, new NewTopic(topic, 2, (short) 1));
            }
        }
    }

    @Test
    void tellsEventsAsTheyComeAndEndsInTime() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "events")) {
            scene.commit(scene::answer);
            scene.commit(() -> {
                AttestationRecord fault = AuditScene.attestation(scene.state, scene.completions);
                fault.setEvent(AuditEvent.FAULT);
                fault.setInOffset(-1);
                fault.setOutTopic("");
                fault.setErrorCode("WEIGHT");
                fault.setDetail("block=3");
                fault.setSuspect(new SuspectRange(scene.state.origin().text(), 0L, 0L, "WEIGHT"));
                Leaf leaf = Leaf.of(fault);
                scene.send(scene.audit, 1, leaf.wire(1));
                scene.state = scene.state.append(leaf.hash());
            });
            scene.commit(scene::checkpoint);
            Ran followed = run(scene.on(with(follow(scene), "--for", "1s", "--json")));
            assertThat(followed.exitCode()).as(followed.err()).isZero();
            assertThat(followed.out().lines().toList()).hasSize(2).satisfies(lines -> {
                assertThat(lines.getFirst()).startsWith("{\"event\":\"FAULT\",\"origin\":\"example.com/cluster/events.audit/1/0\","
                        + "\"seq\":1,").contains("\"error_code\":\"WEIGHT\",\"detail\":\"block=3\",\"suspect\":{\"origin\":"
                        + "\"example.com/cluster/events.audit/1/0\",\"from_seq\":0,\"to_seq\":0,\"reason\":\"WEIGHT\"}");
                assertThat(lines.getLast()).startsWith("{\"verdict\":\"ok\",\"leaves\":2,");
            });
        }
    }

    /// Leaves come while it follows; a broken one ends it.
    @Test
    void followsAGrowingLogUntilItBreaks() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "growing")) {
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            Thread writer = Thread.ofVirtual().start(() -> {
                for (int i = 0; i < 8; i++) {
                    scene.commit(scene::answer);
                    scene.commit(scene::checkpoint);
                    pause(150);
                }
                scene.state = TreeState.start(scene.state.origin()).append(Digest.sha256("another past"));
                scene.commit(() -> scene.leafAlone());
            });
            Ran followed = run(scene.on(with(follow(scene), "--for", "60s", "--state",
                    directory.resolve("growing.state").toString())));
            writer.join();
            assertThat(followed.exitCode()).isEqualTo(1);
            assertThat(followed.out()).containsPattern("growing.audit-1@\\d+: LOG_SEQ_REPEATED: leaf: seq: expected 9, got 1");
            Checkpoint head = FollowState.parse(Files.readString(directory.resolve("growing.state")))
                    .head("example.com/cluster/growing.audit/1/0");
            assertThat(head).isNotNull();
            assertThat(head.size()).isBetween(1L, 9L);
        }
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void needsAKeyAStateAndItsFileAlone() throws IOException {
        Path state = directory.resolve("busy.state");
        assertThat(run("follow").err()).startsWith("millrace: --key: expected the public key of the log;");
        assertThat(run("follow", "--key", KEY.vkey(), "--witness-key", "w.key").err())
                .startsWith("millrace: --witness-key: expected --state too;");
        try (FollowStateFile held = FollowStateFile.open(state)) {
            assertThat(held.state()).isEqualTo(FollowState.EMPTY);
            Ran busy = run("follow", "--key", KEY.vkey(), "--state", state.toString(), "--bootstrap", broker.bootstrap());
            assertThat(busy.exitCode()).isEqualTo(3);
            assertThat(busy.err()).startsWith("millrace: FOLLOW_STATE_BUSY: state file " + state);
        }
    }
}

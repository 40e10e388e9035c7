package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.Digest;
import millrace.integrity.Leaf;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.PruneMark;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// A topic whose oldest leaves were deleted verifies from where the log said that it may begin.
class AuditPruneIT {
    @TempDir
    Path folder;

    private static void delete(EmbeddedBroker broker, String topic, long before) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
            admin.deleteRecords(Map.of(new TopicPartition(topic, 1), RecordsToDelete.beforeOffset(before))).all().get(30, TimeUnit.SECONDS);
        }
    }

    private static String verify(AuditScene scene, int expected) {
        return audit(expected, scene.verify("--key", AuditScene.KEY.vkey(), "--skip-completions", "--settle-ms", "0", "--json"));
    }

    private static String audit(int expected, String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int code = new CommandLine(new Main()).setOut(new PrintWriter(out)).setErr(new PrintWriter(err))
                .execute(AuditScene.with(new String[] {"audit"}, arguments));
        assertThat(code).as(out.toString() + err).isEqualTo(expected);
        return out.toString() + err;
    }

    @Test
    void beginsWhereTheNewestPruneLeafAllows() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.ephemeral("127.0.0.1", 0); AuditScene scene = new AuditScene(broker, "pruned")) {
            for (int i = 0; i < 20; i++) {
                scene.commit(scene::answer); // offsets 0, 2, 4 …: a marker follows each
            }
            TreeState then = scene.state;
            for (int i = 0; i < 10; i++) {
                scene.commit(scene::answer);
            }
            scene.commit(() -> {
                AttestationRecord record = AuditScene.attestation(scene.state, scene.completions);
                record.setEvent(AuditEvent.PRUNE);
                record.setInOffset(-1);
                record.setPrune(new PruneMark(then.size(), then.lastLeaf().toHash(),
                        then.frontier().nodes().stream().map(Digest::toHash).toList()));
                Leaf leaf = Leaf.of(record);
                scene.send(scene.audit, 1, leaf.wire(1));
                scene.state = scene.state.append(leaf.hash());
            });
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            assertThat(verify(scene, 0)).contains("\"leaves\":32,");
            delete(broker, scene.audit, 24);
            assertThat(verify(scene, 0)).contains("\"leaves\":20,", "\"size\":32,\"checkpointed\":32,\"root\":\"" + scene.state.frontier().root().hex());
            String[] prove = scene.on(new String[] {"prove"}, "--partition", "1", "--request-id", "r-15");
            assertThat(audit(2, prove)).contains("proof: undecided: PROVE_PRUNED: leaf 15 of " + scene.state.origin()
                    + ": expected all leaves of the log, whose hashes its path is made of, got none of 0 to 11: retention has deleted them, and"
                    + " their tree is stated for leaves from 20 on only");
            Path proof = folder.resolve("r-25.proof");
            String proven = audit(0, scene.on(
                    new String[] {"prove"}, "--partition", "1", "--request-id", "r-25", "--output", proof.toString(), "--json"));
            assertThat(proven).contains("\"seq\":25,");
            String leaf = proven.replaceAll("(?s).*\"leaf\":\"([0-9a-f]{64})\".*", "$1");
            assertThat(audit(0, "check-proof", proof.toString(), "--key", AuditScene.KEY.vkey(), "--leaf", leaf))
                    .as("its path is made of what the PRUNE leaf states").contains("ok");
            assertThat(audit(0, scene.verify("--key", AuditScene.KEY.vkey(), "--settle-ms", "0", "--json")))
                    .as("completions outlive their leaves").contains("\"completions\":31,", "\"pruned\":12,");
            assertThat(audit(0, "reconcile", "--bootstrap", broker.bootstrap(), "--topic", scene.audit, "--completions-topic",
                    scene.completions, "--settle-ms", "0", "--json")).contains("\"pruned\":12,", "\"orphan\":0");
            delete(broker, scene.audit, 42);
            assertThat(verify(scene, 2)).contains("\"code\":\"LOG_PREFIX_MISSING\"");
        }
    }

    @Test
    void aTailThatWasCutOffIsAViolationOnceNothingIsPending() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.ephemeral("127.0.0.1", 0); AuditScene scene = new AuditScene(broker, "cut")) {
            for (int i = 0; i < 5; i++) {
                scene.commit(scene::answer);
            }
            scene.commit(scene::checkpoint);
            assertThat(verify(scene, 0)).contains("\"leaves\":5,");
            Leaf gone = Leaf.of(AuditScene.attestation(scene.state, scene.completions));
            scene.state = scene.state.append(gone.hash());
            scene.commit(scene::checkpoint);
            scene.producer.beginTransaction();
            scene.send(scene.audit, 1, gone.wire(1));
            scene.producer.flush();
            assertThat(verify(scene, 2)).as("it may still come").contains("\"code\":\"CHECKPOINT_AHEAD\"");
            scene.producer.abortTransaction();
            assertThat(verify(scene, 1)).as("it does not").contains("\"code\":\"LOG_CUT_OFF\"",
                    "\"expected\":\"the 6 that this signed checkpoint covers\",\"got\":\"5\"");
        }
    }
}

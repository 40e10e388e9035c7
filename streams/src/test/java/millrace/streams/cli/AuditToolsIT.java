package millrace.streams.cli;

import static millrace.streams.cli.AuditScene.KEY;
import static millrace.streams.cli.AuditScene.run;
import static millrace.streams.cli.AuditScene.wire;
import static millrace.streams.cli.AuditScene.with;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.SignedNote;
import millrace.schemas.Prompt;
import millrace.streams.cli.AuditScene.Ran;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// What an auditor does with single answers, and gives to others, against a real broker.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class AuditToolsIT {
    private static EmbeddedBroker broker;

    @TempDir
    private Path directory;

    @BeforeAll
    static void start() throws Exception {
        broker = EmbeddedBroker.ephemeral("127.0.0.1", 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
            AuditScene.create(admin, new NewTopic("prompts", 2, (short) 1));
        }
    }

    @AfterAll
    static void stop() {
        broker.close();
    }

    @Test
    void opensWhatALeafCommitsTo() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "opened")) {
            scene.commit(() -> scene.send("prompts", 1, wire(Prompt.newBuilder().setRequestId("r-0").setPrompt("q").build())));
            scene.commit(scene::answer);
            scene.commit(scene::answer);
            scene.commit(scene::checkpoint);
            String[] open = scene.on(new String[] {"open", "--key", KEY.vkey(), "--completions-topic", scene.completions});
            Ran opened = run(with(open, "--request-id", "r-0"));
            assertThat(opened.exitCode()).as(opened.err()).isZero();
            assertThat(opened.out().lines().map(String::strip)).containsExactly(
                    "leaf 0 of example.com/cluster/opened.audit/1/0, request r-0", "prompt         opens",
                    "stop strings   opens", "completion     opens", "token ids      not here", "open: ok")
                    .doesNotContain("a0");
            Ran wrong = run(with(open, "--partition", "1", "--seq", "1", "--salt", "ab".repeat(32), "--json"));
            assertThat(wrong.exitCode()).isEqualTo(1);
            assertThat(wrong.out()).contains("\"code\":\"OPEN_COMMITMENT\"", "\"completion\":\"does_not_open\"",
                    "\"prompt\":\"not_here\"");
            assertThat(run(with(open, "--request-id", "nobody")).exitCode()).isEqualTo(2);
            assertThat(run("open", "--key", KEY.vkey()).err()).startsWith("millrace: open: expected --request-id, or");
        }
    }

    @Test
    void drawsByTheWitnessAndSaysSoWithoutOne() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "drawn")) {
            for (int i = 0; i < 40; i++) {
                scene.commit(scene::answer);
            }
            scene.commit(scene::checkpoint);
            scene.commit(scene::answer);
            Path key = directory.resolve("w.key");
            String witness = run("keygen", "--witness", "--name", "w.example", key.toString()).out().strip();
            Ran followed = run(scene.on(new String[] {"follow", "--key", KEY.vkey(), "--completions-topic", scene.completions,
                "--once", "--witness-key", key.toString(), "--state", directory.resolve("w.state").toString(),
                "--cosignatures-topic", "drawn.cosigs"}));
            assertThat(followed.exitCode()).as(followed.err()).isZero();
            String[] lottery = scene.on(new String[] {"lottery", "--key", KEY.vkey(), "--cosignatures-topic", "drawn.cosigs",
                "--json"});
            Ran all = run(with(lottery, "--rate", "1", "--witness", witness));
            assertThat(all.out().lines()).hasSize(41);
            JsonNode summary = JsonLines.mapper().readTree(all.out().lines().toList().getLast());
            assertThat(summary.get("drawn").asInt()).isEqualTo(40);
            assertThat(summary.get("too_new").asInt()).as("no checkpoint covers it yet").isEqualTo(1);
            assertThat(summary.get("seeded_by").asText()).startsWith("w.example+");
            Ran half = run(with(lottery, "--rate", "0.5", "--witness", witness));
            assertThat(half.out().lines().count()).isBetween(8L, 34L);
            assertThat(half.out()).isEqualTo(run(with(lottery, "--rate", "0.5", "--witness", witness)).out());
            Ran alone = run(with(lottery, "--rate", "0.5"));
            assertThat(alone.err()).contains("unpredictable to outsiders only; give --witness");
            assertThat(alone.out()).contains("\"unpredictable_to\":\"outsiders only\"");
            assertThat(run(with(lottery, "--rate", "1.5")).err()).startsWith("millrace: --rate: expected a number above 0");
        }
    }

    @Test
    void exportsTilesAndStatements() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "exported")) {
            for (int i = 0; i < 9; i++) {
                scene.commit(scene::answer);
            }
            scene.commit(scene::checkpoint);
            scene.commit(scene::answer);
            Path tiles = directory.resolve("tiles");
            Path records = directory.resolve("records.jsonl");
            Ran exported = run(scene.on(new String[] {"export", "--key", KEY.vkey(), "--tiles", tiles.toString(), "--intoto",
                records.toString(), "--json"}));
            assertThat(exported.out()).as(exported.err()).isEqualTo("{\"verdict\":\"ok\",\"leaves\":9,\"files\":3}"
                    + System.lineSeparator());
            Path log = tiles.resolve("example.com/cluster/exported.audit/1/0");
            assertThat(log.resolve("tile/0/000.p/9")).hasSize(9 * 32);
            assertThat(log.resolve("tile/entries/000.p/9")).exists();
            assertThat(SignedNote.parse(Files.readString(log.resolve("checkpoint"))).verify(List.of(KEY.verifier()))).hasSize(1);
            List<String> lines = Files.readAllLines(records);
            assertThat(lines).hasSize(9);
            JsonNode statement = JsonLines.mapper().readTree(lines.get(4));
            assertThat(statement.get("_type").asText()).isEqualTo("https://in-toto.io/Statement/v1");
            assertThat(statement.get("predicateType").asText()).isEqualTo("https://example.com/attest/inference/v1");
            assertThat(statement.at("/subject/0/name").asText()).isEqualTo("example.com/cluster/exported.audit/1/0/4");
            assertThat(statement.at("/predicate/request_id").asText()).isEqualTo("r-4");
            assertThat(statement.at("/predicate/completion_commit").asText()).matches("[0-9a-f]{64}");
            assertThat(run("export", "--key", KEY.vkey()).err()).startsWith("millrace: export: expected --tiles or --intoto");
        }
    }

    /// Retention takes the oldest completions long before their leaves: nothing is missed for that.
    @Test
    void passesALogWhoseOldCompletionsHaveExpired() throws Exception {
        try (AuditScene scene = new AuditScene(broker, "expired")) {
            for (int i = 0; i < 10; i++) {
                scene.commit(scene::answer);
            }
            scene.commit(scene::checkpoint);
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()))) {
                admin.deleteRecords(Map.of(new TopicPartition(scene.completions, 0), RecordsToDelete.beforeOffset(4),
                        new TopicPartition(scene.completions, 1), RecordsToDelete.beforeOffset(4)))
                        .all().get(30, TimeUnit.SECONDS);
            }
            Ran verified = run(scene.verify("--key", KEY.vkey(), "--settle-ms", "500", "--json"));
            assertThat(verified.out()).contains("\"verdict\":\"ok\"", "\"expired\":4", "\"matched\":6");
            Ran reconciled = run(scene.on(new String[] {"reconcile", "--completions-topic", scene.completions, "--settle-ms",
                "500", "--json"}));
            assertThat(reconciled.exitCode()).as(reconciled.out()).isZero();
        }
    }
}

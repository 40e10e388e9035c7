package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.audit.AuditTopicCheck;
import millrace.streams.KafkaTools;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

/// `topics create` and `topics check`, on a real broker.
class TopicsCommandIT {
    private static final List<String> USES =
            List.of("prompts", "completions", "audit", "checkpoints", "faults", "dlq", "control", "cancels", "salts", "deltas",
                    "cosignatures");

    private static EmbeddedBroker broker;
    private static Admin admin;

    private record Ran(int exitCode, String out, String err) {}

    @BeforeAll
    static void start() {
        broker = EmbeddedBroker.ephemeral("127.0.0.1", 0);
        admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrap()));
    }

    @AfterAll
    static void stop() {
        admin.close();
        broker.close();
    }

    /// Runs a command on topics of the test's own.
    private static Ran run(String prefix, String... arguments) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of("-b", broker.bootstrap()));
        USES.forEach(use -> all.addAll(List.of("-D", "topics." + use + "=" + prefix + "." + use)));
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        CommandLine line = Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err));
        int exitCode = line.execute(all.toArray(String[]::new));
        return new Ran(exitCode, out.toString(), err.toString());
    }

    private static Map<String, String> settings(String topic) {
        return AuditTopicCheck.read(admin, topic).config();
    }

    @Test
    void createsEveryTopicSafelyAndNothingTwice() {
        Ran dry = run("new", "topics", "create", "--partitions", "3", "--dry-run", "-D", "audit.single.node=true");
        assertThat(dry.exitCode()).as(dry.out() + dry.err()).isZero();
        assertThat(dry.out()).contains("would create new.prompts: 3 partitions, 1 replicas, cleanup.policy=delete")
                .endsWith(USES.size() + " topics: " + USES.size() + " to create, 0 were there: ok" + System.lineSeparator());
        Ran none = run("new", "topics", "check", "-D", "audit.single.node=true");
        assertThat(none.exitCode()).as("a dry run creates nothing").isEqualTo(1);
        assertThat(none.out()).contains("TOPIC_MISSING: topic new.prompts: topic: expected it to exist, got none")
                .contains("    millrace topics create").endsWith(USES.size() - 1 + " wrong" + System.lineSeparator());

        Ran first = run("new", "topics", "create", "--partitions", "3", "-D", "audit.single.node=true");
        assertThat(first.exitCode()).as(first.out() + first.err()).isZero();
        assertThat(first.out()).endsWith(USES.size() + " topics: " + USES.size() + " created, 0 were there: ok" + System.lineSeparator());
        assertThat(settings("new.audit")).containsEntry("cleanup.policy", "delete").containsEntry("retention.ms", "15897600000")
                .containsEntry("message.timestamp.type", "LogAppendTime").containsEntry("unclean.leader.election.enable", "false");
        assertThat(settings("new.prompts")).containsEntry("max.message.bytes", "1262144").containsEntry("cleanup.policy", "delete");
        assertThat(settings("new.salts")).containsEntry("cleanup.policy", "compact,delete");
        assertThat(AuditTopicCheck.read(admin, "new.control").partitions()).isEqualTo(3);
        assertThat(AuditTopicCheck.read(admin, "new.faults").partitions()).isEqualTo(1);

        Ran again = run("new", "topics", "create", "-D", "audit.single.node=true");
        assertThat(again.out()).as(again.err()).isEqualTo(USES.size() + " topics: 0 created, " + USES.size()
                + " were there: ok" + System.lineSeparator());
        assertThat(again.exitCode()).isZero();
    }

    @Test
    void namesEveryWrongSettingWithTheCommandThatMendsIt() throws Exception {
        create("weak.prompts", 3, Map.of("cleanup.policy", "compact"));
        create("weak.completions", 2, Map.of("max.message.bytes", "1048588", "unclean.leader.election.enable", "true"));
        create("weak.audit", 3, Map.of("cleanup.policy", "compact,delete", "retention.ms", "60000", "retention.bytes", "1000"));
        create("weak.salts", 3, Map.of("cleanup.policy", "delete"));
        create("weak.control", 4, Map.of());
        Ran made = run("weak", "topics", "create", "-D", "audit.single.node=true");
        assertThat(made.exitCode()).as("what is there is named, not changed").isEqualTo(1);
        assertThat(settings("weak.audit")).containsEntry("retention.ms", "60000");

        Ran wrong = run("weak", "topics", "check", "-D", "audit.single.node=true");
        assertThat(wrong.exitCode()).isEqualTo(1);
        assertThat(wrong.out().lines().filter(line -> !line.startsWith(" "))).contains(
                "TOPIC_PARTITIONS: topic weak.completions: partitions: expected at least 3 as weak.prompts has, got 2; add partitions",
                "TOPIC_PARTITIONS: topic weak.control: partitions: expected 3 as weak.prompts has, got 4; an order goes to the"
                        + " partition of its log",
                "TOPIC_WEAK: topic weak.prompts: cleanup.policy: expected delete, got compact; records of one key would be removed"
                        + " before they are read",
                "TOPIC_WEAK: topic weak.completions: unclean.leader.election.enable: expected false, got true; a broker that was"
                        + " behind may become leader, and what was acknowledged is lost",
                "TOPIC_WEAK: topic weak.completions: max.message.bytes: expected at least 1262144, got 1048588; a record of"
                        + " intake.max.bytes would be refused by the broker",
                "AUDIT_TOPIC_UNSAFE: topic weak.audit: cleanup.policy: expected delete, got compact,delete; evidence could be lost",
                "AUDIT_TOPIC_UNSAFE: topic weak.audit: retention.ms: expected -1 or at least 15897600000, got 60000; evidence could"
                        + " be lost",
                "AUDIT_TOPIC_UNSAFE: topic weak.audit: retention.bytes: expected -1, got 1000; evidence could be lost",
                "AUDIT_TOPIC_UNSAFE: topic weak.audit: message.timestamp.type: expected LogAppendTime, got CreateTime; evidence"
                        + " could be lost",
                "SALTS_TOPIC_UNSAFE: topic weak.salts: cleanup.policy: expected compact, or compact,delete, got delete; otherwise"
                        + " erased salts stay readable");

        List<String> commands = wrong.out().lines().filter(line -> line.startsWith("    kafka-")).map(String::strip).toList();
        commands.forEach(KafkaTools::run);
        admin.deleteTopics(List.of("weak.control")).all().get(30, TimeUnit.SECONDS);
        Ran mended = run("weak", "topics", "create", "-D", "audit.single.node=true");
        for (int i = 0; i < 100 && mended.exitCode() != 0; i++) { // a broker's view of its topics lags a moment behind
            Thread.sleep(50);
            mended = run("weak", "topics", "create", "-D", "audit.single.node=true");
        }
        assertThat(mended.exitCode()).as("after its own advice: " + mended.out() + mended.err()).isZero();
        assertThat(settings("weak.salts")).containsEntry("cleanup.policy", "compact,delete");
    }

    @Test
    void wantsThreeBrokersUnlessASingleOneIsMeant() throws Exception {
        Ran ran = run("one", "topics", "create");
        assertThat(ran.exitCode()).isEqualTo(3);
        assertThat(ran.err()).isEqualTo("millrace: topics.replication.factor: expected at most the number of brokers (1), got 3; add"
                + " brokers, or say that a single one is meant: -D audit.single.node=true" + System.lineSeparator());
        create("one.prompts", 2, Map.of());
        assertThat(run("one", "topics", "create", "--partitions", "5", "-D", "audit.single.node=true").err()).startsWith(
                "millrace: --partitions: expected 2, as one.prompts has, got 5; leave it out, or raise the outputs");
        Ran json = run("one", "topics", "check", "--json");
        JsonNode line = JsonLines.mapper().readTree(json.out());
        assertThat(line.path("verdict").asText()).isEqualTo("wrong");
        assertThat(line.path("findings")).extracting(finding -> finding.path("topic").asText() + " " + finding.path("setting").asText()
                + " " + finding.path("mend").asText()).contains("one.prompts min.insync.replicas kafka-configs.sh --bootstrap-server "
                        + broker.bootstrap() + " --entity-type topics --entity-name one.prompts --alter --add-config"
                        + " min.insync.replicas=2");
    }

    @Test
    void endsWithThreeForUsage() {
        assertThat(run("x", "topics").exitCode()).isEqualTo(3);
        assertThat(run("x", "topics", "create", "--partitions", "0").exitCode()).isEqualTo(3);
        assertThat(run("x", "topics", "check", "--nonsense").exitCode()).isEqualTo(3);
    }

    private static void create(String name, int partitions, Map<String, String> config) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get(30, TimeUnit.SECONDS);
        while (!admin.listTopics().names().get(30, TimeUnit.SECONDS).contains(name)) {
            Thread.sleep(20);
        }
    }
}

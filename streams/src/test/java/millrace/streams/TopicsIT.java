package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.IntegrityException;
import millrace.streams.embedded.EmbeddedBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsResult;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.ForwardingAdmin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.config.ConfigResource;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/// What the service makes of topics that are missing, or weaker than its promises.
class TopicsIT {
    private static EmbeddedBroker broker;
    private static Admin admin;

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

    /// Settings with topics of the test's own.
    private static Map<String, String> settings(String prefix) {
        Map<String, String> settings = new HashMap<>(Map.of(
                "kafka.bootstrap.servers", broker.bootstrap(), "topics.replication.factor", "1", "audit.single.node", "true",
                "topics.partitions", "2"));
        settings.putAll(OwnTopics.of(prefix));
        return settings;
    }

    private static Topics topics(Map<String, String> settings) {
        return new Topics(ServiceConfig.of(settings));
    }

    private static void create(String name, int partitions, Map<String, String> config) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get(30, TimeUnit.SECONDS);
        while (!admin.listTopics().names().get(30, TimeUnit.SECONDS).contains(name)) {
            Thread.sleep(20);
        }
    }

    @Test
    void createsWhatIsMissingAndAcceptsItAtTheNextStart() throws Exception {
        Map<String, String> settings = settings("new");
        String story = topics(settings).ensure(admin);
        assertThat(story).isEqualTo("new.prompts (2 partitions) -> new.completions, new.audit");
        assertThat(topics(settings).ensure(admin)).isEqualTo(story);
        Map<String, TopicDescription> found =
                admin.describeTopics(List.of("new.prompts", "new.audit", "new.dlq")).allTopicNames().get(30, TimeUnit.SECONDS);
        assertThat(found.values()).extracting(topic -> topic.partitions().size()).containsExactly(2, 2, 2);
    }

    /// One broker of several has heard of new topics, the next that is asked has not yet.
    @Test
    void asksAgainWhereABrokerHasNotHeardOfATopicYet() {
        Map<String, String> settings = settings("late");
        try (LateBroker late = new LateBroker(broker.bootstrap())) {
            String story = topics(settings).ensure(late);
            assertThat(story).isEqualTo("late.prompts (2 partitions) -> late.completions, late.audit");
            assertThat(topics(settings).check(late)).extracting(TopicFinding::code).doesNotContain(TopicFinding.MISSING);
            assertThat(topics(settings).partitions(late)).containsEntry("late.audit", 2);
            assertThat(topics(settings).auditRetention(late)).isPositive();
            assertThat(late.unheard).as("asks of a broker that had not heard").isGreaterThan(10);
        }
    }

    /// Every third question goes to a broker that knows no topic.
    private static final class LateBroker extends ForwardingAdmin {
        private int asked;
        private int unheard;

        LateBroker(String bootstrap) {
            super(Map.of("bootstrap.servers", bootstrap));
        }

        private boolean hasNotHeard() {
            boolean late = ++asked % 3 == 0;
            unheard += late ? 1 : 0;
            return late;
        }

        @Override
        public DescribeTopicsResult describeTopics(TopicCollection topics, DescribeTopicsOptions options) {
            return super.describeTopics(hasNotHeard() ? TopicCollection.ofTopicNames(List.of("nobody-knows-it")) : topics, options);
        }

        @Override
        public DescribeConfigsResult describeConfigs(Collection<ConfigResource> resources, DescribeConfigsOptions options) {
            return super.describeConfigs(hasNotHeard()
                    ? List.of(new ConfigResource(ConfigResource.Type.TOPIC, "nobody-knows-it")) : resources, options);
        }
    }

    @Test
    void followsTheNumberOfPartitionsOfAnExistingPromptsTopic() throws Exception {
        create("own.prompts", 3, Map.of());
        assertThat(topics(settings("own")).ensure(admin)).isEqualTo("own.prompts (3 partitions) -> own.completions, own.audit");
        assertThat(admin.describeTopics(List.of("own.audit")).allTopicNames().get(30, TimeUnit.SECONDS).get("own.audit").partitions())
                .hasSize(3);
    }

    @Test
    void refusesToStartWithoutTopicsThatItMayNotCreate() throws Exception {
        Map<String, String> settings = settings("missing");
        settings.put("topics.create", "false");
        create("missing.prompts", 1, Map.of());
        assertThatThrownBy(() -> topics(settings).ensure(admin)).isInstanceOf(Topics.UnsafeTopicException.class)
                .hasMessage("TOPIC_MISSING: topics [missing.completions, missing.audit, missing.checkpoints, missing.faults, missing.dlq,"
                        + " missing.control, missing.cancels, missing.salts, missing.deltas] do not exist;"
                        + " create them with `millrace topics create`, or set topics.create=true");
    }

    @Test
    void refusesOneTopicForTwoPurposes() {
        Map<String, String> settings = settings("same");
        settings.put("topics.dlq", "same.audit");
        assertThatThrownBy(() -> topics(settings))
                .hasMessage("CONFIG_TOPICS: topics.*: expected different topics, got [same.prompts, same.completions, same.audit,"
                        + " same.checkpoints, same.faults, same.audit, same.control, same.cancels, same.salts,"
                        + " same.deltas, llm.audit.cosigs]");
    }

    @Test
    void refusesFewerPartitionsThanThePromptsHave() throws Exception {
        create("few.prompts", 3, Map.of());
        create("few.completions", 2, Map.of());
        assertThatThrownBy(() -> topics(settings("few")).ensure(admin))
                .hasMessage("TOPIC_PARTITIONS: topic few.completions: partitions: expected at least 3 as few.prompts has, got 2; add"
                        + " partitions");
    }

    @Test
    void refusesAnotherNumberOfPartitionsForOrders() throws Exception {
        create("orders.control", 3, Map.of());
        assertThatThrownBy(() -> topics(settings("orders")).ensure(admin))
                .hasMessage("TOPIC_PARTITIONS: topic orders.control: partitions: expected 2 as orders.prompts has, got 3; an order goes"
                        + " to the partition of its log");
    }

    @Test
    void refusesSaltsThatWouldStayWhenErased() throws Exception {
        create("kept.salts", 2, Map.of("cleanup.policy", "delete"));
        assertThatThrownBy(() -> topics(settings("kept")).ensure(admin))
                .hasMessage("SALTS_TOPIC_UNSAFE: topic kept.salts: cleanup.policy: expected compact, or compact,delete, got delete;"
                        + " otherwise erased salts stay readable");
    }

    @Test
    void refusesAnAuditTopicThatIsCompacted() throws Exception {
        create("compact.audit", 2, Map.of("cleanup.policy", "compact", "retention.ms", "-1"));
        assertThatThrownBy(() -> topics(settings("compact")).ensure(admin))
                .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("AUDIT_TOPIC_UNSAFE"))
                .hasMessageContaining("topic compact.audit: cleanup.policy: expected delete, got compact");
    }

    @Test
    void refusesAnAuditTopicThatForgetsTooSoon() throws Exception {
        create("short.audit", 2, Map.of("retention.ms", "60000"));
        assertThatThrownBy(() -> topics(settings("short")).ensure(admin))
                .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("AUDIT_TOPIC_UNSAFE"))
                .hasMessageContaining("topic short.audit: retention.ms: expected -1 or at least 15897600000, got 60000");
    }

    @Test
    void refusesAReplicationFactorOfOneUnlessItIsASingleNode() {
        Map<String, String> settings = settings("single");
        settings.put("audit.single.node", "false");
        assertThatThrownBy(() -> topics(settings).ensure(admin))
                .isInstanceOfSatisfying(IntegrityException.class, e -> assertThat(e.code()).isEqualTo("AUDIT_TOPIC_UNSAFE"))
                .hasMessageContaining("topic single.audit: replicas: expected at least 3, got 1");
    }
}

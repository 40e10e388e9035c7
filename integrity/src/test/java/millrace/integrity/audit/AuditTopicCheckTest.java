package millrace.integrity.audit;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import millrace.integrity.audit.AuditTopicCheck.Requirements;
import millrace.integrity.audit.AuditTopicCheck.TopicFacts;
import org.junit.jupiter.api.Test;

class AuditTopicCheckTest {
    private static final Map<String, String> GOOD = Map.of("cleanup.policy", "delete", "min.insync.replicas", "2",
            "unclean.leader.election.enable", "false", "retention.ms", "15897600000", "retention.bytes", "-1",
            "message.timestamp.type", "LogAppendTime");

    private static TopicFacts topic(int replicas, Map<String, String> changes) {
        Map<String, String> config = new java.util.HashMap<>(GOOD);
        config.putAll(changes);
        return new TopicFacts("audit", 4, replicas, config);
    }

    @Test
    void acceptsAFitTopic() {
        assertThat(AuditTopicCheck.problems(topic(3, Map.of()), 4, Requirements.CLUSTER)).isEmpty();
        assertThat(AuditTopicCheck.problems(topic(3, Map.of("retention.ms", "-1")), 4, Requirements.CLUSTER)).isEmpty();
        assertThat(AuditTopicCheck.problems(topic(1, Map.of("min.insync.replicas", "1")), 4, Requirements.SINGLE_NODE))
                .isEmpty();
    }

    @Test
    void namesEveryWeakness() {
        TopicFacts weak = topic(1, Map.of("cleanup.policy", "compact,delete", "min.insync.replicas", "1",
                "unclean.leader.election.enable", "true", "retention.ms", "604800000", "retention.bytes", "1000",
                "message.timestamp.type", "CreateTime"));
        assertThat(AuditTopicCheck.problems(weak, 5, Requirements.CLUSTER)).containsExactly(
                "topic audit: cleanup.policy: expected delete, got compact,delete",
                "topic audit: replicas: expected at least 3, got 1",
                "topic audit: min.insync.replicas: expected at least 2, got 1",
                "topic audit: unclean.leader.election.enable: expected false, got true",
                "topic audit: message.timestamp.type: expected LogAppendTime, got CreateTime",
                "topic audit: retention.ms: expected -1 or at least 15897600000, got 604800000",
                "topic audit: retention.bytes: expected -1, got 1000",
                "topic audit: partitions: expected at least 5, got 4");
    }

    @Test
    void neverAcceptsCompactionEvenOnASingleNode() {
        assertThat(AuditTopicCheck.problems(topic(1, Map.of("cleanup.policy", "compact")), 1, Requirements.SINGLE_NODE))
                .containsExactly("topic audit: cleanup.policy: expected delete, got compact");
    }
}

package millrace.integrity.audit;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import millrace.integrity.IntegrityException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/// Whether a topic is fit to hold an audit log: it must keep every record, in more than one place.
public final class AuditTopicCheck {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private AuditTopicCheck() {}

    /// What is demanded.
    ///
    /// @param replicas that each partition must have
    /// @param insyncReplicas that must take a record before it counts (`min.insync.replicas`)
    /// @param retention that records must be kept at least
    public record Requirements(int replicas, int insyncReplicas, Duration retention) {
        /// Three replicas, two in sync, half a year.
        public static final Requirements CLUSTER = new Requirements(3, 2, Duration.ofDays(184));

        /// For one broker, as in a demonstration: nothing can be replicated, the rest stands.
        public static final Requirements SINGLE_NODE = new Requirements(1, 1, Duration.ofDays(184));
    }

    /// A topic as it is.
    ///
    /// @param replicas of the partition that has the fewest
    /// @param config the effective configuration
    public record TopicFacts(String name, int partitions, int replicas, Map<String, String> config) {
        public TopicFacts {
            config = Map.copyOf(config);
        }
    }

    /// One setting that is weaker than required.
    ///
    /// @param setting the topic's configuration key, or `replicas` or `partitions`
    public record Weakness(String topic, String setting, String expected, String got) {
        /// `topic: setting: expected X, got Y`.
        public String text() {
            return "topic %s: %s: expected %s, got %s".formatted(topic, setting, expected, got);
        }
    }

    /// Reads the topics and refuses those that are weaker than required.
    ///
    /// @param partitions that the audit topic must have at least: one per partition of the prompts topic
    /// @throws IntegrityException code `AUDIT_TOPIC_UNSAFE` naming every weakness, `AUDIT_TOPIC_MISSING`
    public static void check(Admin admin, List<String> topics, int partitions, Requirements requirements) {
        List<Weakness> found = new ArrayList<>();
        for (String topic : topics) {
            found.addAll(weaknesses(read(admin, topic), partitions, requirements));
        }
        if (!found.isEmpty()) {
            throw unsafe(found);
        }
    }

    /// The refusal that names every weakness, of which there is one at least.
    public static IntegrityException unsafe(List<Weakness> found) {
        return new IntegrityException("AUDIT_TOPIC_UNSAFE",
                found.stream().map(Weakness::text).collect(Collectors.joining("; "))
                        + "; change the topic's configuration, or state that this is a single node");
    }

    /// Every way in which the topic is weaker than required, each as `topic: setting: expected X, got Y`.
    public static List<String> problems(TopicFacts topic, int partitions, Requirements requirements) {
        return weaknesses(topic, partitions, requirements).stream().map(Weakness::text).toList();
    }

    /// Every way in which the topic is weaker than required.
    public static List<Weakness> weaknesses(TopicFacts topic, int partitions, Requirements requirements) {
        List<Weakness> problems = new ArrayList<>();
        String cleanup = topic.config().getOrDefault("cleanup.policy", "delete");
        demand(problems, topic, !cleanup.contains("compact"), "cleanup.policy", "delete", cleanup);
        demand(problems, topic, topic.replicas() >= requirements.replicas(), "replicas",
                "at least " + requirements.replicas(), topic.replicas());
        long insync = number(topic, "min.insync.replicas", 1);
        demand(problems, topic, insync >= requirements.insyncReplicas(), "min.insync.replicas",
                "at least " + requirements.insyncReplicas(), insync);
        String unclean = topic.config().getOrDefault("unclean.leader.election.enable", "false");
        demand(problems, topic, unclean.equals("false"), "unclean.leader.election.enable", "false", unclean);
        String time = topic.config().getOrDefault("message.timestamp.type", "CreateTime");
        // By the writer's clock, a clock that is wrong would have leaves deleted too early.
        demand(problems, topic, time.equals("LogAppendTime"), "message.timestamp.type", "LogAppendTime", time);
        long retention = number(topic, "retention.ms", -1);
        demand(problems, topic, retention < 0 || retention >= requirements.retention().toMillis(), "retention.ms",
                "-1 or at least " + requirements.retention().toMillis(), retention);
        long bytes = number(topic, "retention.bytes", -1);
        demand(problems, topic, bytes < 0, "retention.bytes", "-1", bytes);
        demand(problems, topic, topic.partitions() >= partitions, "partitions", "at least " + partitions,
                topic.partitions());
        return problems;
    }

    private static long number(TopicFacts topic, String key, long fallback) {
        String value = topic.config().get(key);
        return value == null ? fallback : Long.parseLong(value);
    }

    private static void demand(
            List<Weakness> problems, TopicFacts topic, boolean holds, String what, Object expected, Object got) {
        if (!holds) {
            problems.add(new Weakness(topic.name(), what, expected.toString(), got.toString()));
        }
    }

    /// Reads a topic's facts from the cluster.
    public static TopicFacts read(Admin admin, String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try {
            TopicDescription description = admin.describeTopics(List.of(topic)).allTopicNames()
                    .get(TIMEOUT.toSeconds(), TimeUnit.SECONDS).get(topic);
            Config config = admin.describeConfigs(List.of(resource)).all()
                    .get(TIMEOUT.toSeconds(), TimeUnit.SECONDS).get(resource);
            Map<String, String> values = new HashMap<>();
            for (ConfigEntry entry : config.entries()) {
                if (entry.value() != null) {
                    values.put(entry.name(), entry.value());
                }
            }
            int replicas = description.partitions().stream().mapToInt(p -> p.replicas().size()).min().orElse(0);
            return new TopicFacts(topic, description.partitions().size(), replicas, values);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                throw new IntegrityException("AUDIT_TOPIC_MISSING",
                        "topic %s: expected it to exist; create it, or let the service do so".formatted(topic), e);
            }
            throw unreadable(topic, e.getCause() == null ? e : e.getCause());
        } catch (TimeoutException e) {
            throw unreadable(topic, e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw unreadable(topic, e);
        }
    }

    private static IntegrityException unreadable(String topic, Throwable cause) {
        return new IntegrityException("AUDIT_TOPIC_UNREADABLE",
                "topic %s: expected its configuration within %d s, got %s; check the brokers and the rights"
                        .formatted(topic, TIMEOUT.toSeconds(), cause), cause);
    }
}

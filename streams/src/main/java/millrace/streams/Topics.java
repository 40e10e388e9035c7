package millrace.streams;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import millrace.integrity.audit.AuditTopicCheck;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.jspecify.annotations.Nullable;

/// Creates the service's topics, and refuses to start on topics that are weaker than its promises.
final class Topics {
    private static final Duration VISIBLE_WITHIN = Duration.ofSeconds(30);

    /// A topic that is missing, or set up in a way that would break a promise.
    static final class UnsafeTopicException extends IllegalStateException {
        private static final long serialVersionUID = 1L;

        UnsafeTopicException(String code, String message) {
            super(code + ": " + message);
        }
    }

    private final ServiceConfig config;

    Topics(ServiceConfig config) {
        this.config = config;
    }

    /// Creates what is missing (where allowed) and checks what is there. Returns a line for the story of the start.
    String ensure(Admin admin) {
        String prompts = config.string("topics.prompts");
        String audit = config.string("topics.audit");
        List<String> names = new ArrayList<>();
        for (String use : List.of("prompts", "completions", "audit", "checkpoints", "faults", "dlq", "control", "salts")) {
            names.add(config.string("topics." + use));
        }
        if (Set.copyOf(names).size() != names.size()) {
            throw new UnsafeTopicException("CONFIG_TOPICS", "topics.*: expected different topics, got " + names);
        }
        Set<String> existing = get(admin.listTopics().names());
        int partitions = existing.contains(prompts)
                ? get(admin.describeTopics(List.of(prompts)).allTopicNames()).get(prompts).partitions().size()
                : config.integer("topics.partitions");
        List<NewTopic> missing = new ArrayList<>();
        for (String name : names) {
            if (!existing.contains(name)) {
                missing.add(topic(name, name.equals(config.string("topics.faults")) ? 1 : partitions));
            }
        }
        if (!missing.isEmpty()) {
            create(admin, missing);
            awaitVisible(admin, names);
        }
        check(admin, names, prompts, audit);
        return "%s (%d partitions) -> %s, %s".formatted(prompts, partitions, config.string("topics.completions"), audit);
    }

    private void create(Admin admin, List<NewTopic> missing) {
        List<String> names = missing.stream().map(NewTopic::name).toList();
        if (!config.flag("topics.create")) {
            throw new UnsafeTopicException("TOPIC_MISSING",
                    "topics " + names + " do not exist; create them, or set topics.create=true");
        }
        try {
            admin.createTopics(missing).all().get();
        } catch (ExecutionException e) {
            // Another instance may have been faster.
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw new KafkaException("cannot create topics " + names + ": " + e.getCause().getMessage(), e.getCause());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while creating topics " + names, e);
        }
    }

    /// A broker that answers now may not have heard of the new topics yet.
    private static void awaitVisible(Admin admin, List<String> names) {
        long until = System.nanoTime() + VISIBLE_WITHIN.toNanos();
        while (true) {
            try {
                admin.describeTopics(names).allTopicNames().get();
                return;
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof UnknownTopicOrPartitionException) || System.nanoTime() > until) {
                    throw new KafkaException("topics " + names + " were created but do not appear: " + e.getCause().getMessage(), e.getCause());
                }
                pause();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new KafkaException("interrupted while waiting for topics " + names, e);
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private NewTopic topic(String name, int partitions) {
        int replication = config.integer("topics.replication.factor");
        NewTopic topic = new NewTopic(
                name, Optional.of(partitions), replication < 0 ? Optional.empty() : Optional.of((short) replication));
        Map<String, String> settings = new HashMap<>();
        settings.put("max.message.bytes", Integer.toString(ProducerLimits.maxRequestBytes(config)));
        if (evidence().contains(name)) {
            settings.put("cleanup.policy", "delete");
            settings.put("message.timestamp.type", "LogAppendTime");
            settings.put("retention.ms", Long.toString(requirements().retention().toMillis()));
            settings.put("unclean.leader.election.enable", "false");
            settings.put("min.insync.replicas", Integer.toString(requirements().insyncReplicas()));
        }
        if (name.equals(config.string("topics.salts"))) {
            // Compacted, so that an erased salt goes; and no salt outlives its leaf.
            settings.put("cleanup.policy", "compact,delete");
            settings.put("retention.ms", Long.toString(requirements().retention().toMillis()));
            settings.put("max.compaction.lag.ms", Long.toString(Duration.ofHours(24).toMillis()));
            settings.put("min.insync.replicas", Integer.toString(requirements().insyncReplicas()));
        }
        return topic.configs(settings);
    }

    private void check(Admin admin, List<String> names, String prompts, String audit) {
        Map<String, TopicDescription> topics = get(admin.describeTopics(names).allTopicNames());
        int inputs = topics.get(prompts).partitions().size();
        for (String output : names) {
            if (output.equals(config.string("topics.faults"))) {
                continue;
            }
            int count = topics.get(output).partitions().size();
            if (count < inputs) {
                throw new UnsafeTopicException("TOPIC_PARTITIONS", "topic " + output + ": expected at least as many partitions as "
                        + prompts + " (" + inputs + "), got " + count + "; add partitions");
            }
        }
        int orders = topics.get(config.string("topics.control")).partitions().size();
        if (orders != inputs) {
            throw new UnsafeTopicException("TOPIC_PARTITIONS", "topic " + config.string("topics.control") + ": expected as many partitions as "
                    + prompts + " (" + inputs + "), got " + orders + "; an order goes to the partition of its log");
        }
        String cleanup = AuditTopicCheck.read(admin, config.string("topics.salts")).config().getOrDefault("cleanup.policy", "delete");
        if (!cleanup.contains("compact")) {
            throw new UnsafeTopicException("SALTS_TOPIC_UNSAFE", "topic " + config.string("topics.salts")
                    + ": cleanup.policy: expected compact, or compact,delete, got " + cleanup + "; otherwise erased salts stay readable");
        }
        AuditTopicCheck.check(admin, List.of(audit, config.string("topics.checkpoints")), inputs, requirements());
        AuditTopicCheck.check(admin, List.of(config.string("topics.faults")), 1, requirements());
    }

    /// How long the audit topic keeps leaves; null for ever.
    @Nullable Duration auditRetention(Admin admin) {
        String ms = AuditTopicCheck.read(admin, config.string("topics.audit")).config().getOrDefault("retention.ms", "-1");
        return Long.parseLong(ms) < 0 ? null : Duration.ofMillis(Long.parseLong(ms));
    }

    /// The topics that must keep what they have.
    private List<String> evidence() {
        return List.of(config.string("topics.audit"), config.string("topics.checkpoints"), config.string("topics.faults"));
    }

    /// What the audit topics are made with, and must have.
    private AuditTopicCheck.Requirements requirements() {
        return config.flag("audit.single.node")
                ? AuditTopicCheck.Requirements.SINGLE_NODE
                : AuditTopicCheck.Requirements.CLUSTER;
    }

    private static <T> T get(org.apache.kafka.common.KafkaFuture<T> future) {
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw new KafkaException("the cluster did not answer: " + e.getCause().getMessage(), e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while asking the cluster", e);
        }
    }
}

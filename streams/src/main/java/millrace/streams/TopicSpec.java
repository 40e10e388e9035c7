package millrace.streams;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.integrity.audit.AuditTopicCheck;

/// One topic of a service: what it is made with, and what it must be. A new topic is one line of [#all].
///
/// @param use the configuration key that names it, without `topics.`
/// @param name the topic's name
record TopicSpec(String use, String name, Nature nature, Partitions partitions) {
    private static final Duration PREVIEW_RETENTION = Duration.ofHours(1);
    /// How long text that nobody needs any more may lie about.
    static final Duration LONGEST_PREVIEW_RETENTION = Duration.ofDays(1);

    /// How many partitions it must have, against those of the prompts topic.
    enum Partitions {
        /// One is enough.
        ONE,
        /// What belongs to a prompt goes to the partition of the prompt's number.
        AT_LEAST_PROMPTS,
        /// The same, and the service reads it, so that a partition more would belong to no task.
        AS_PROMPTS
    }

    /// What a topic holds, and so what may not happen to it.
    enum Nature {
        /// Prompts, answers, orders: each record is wanted once, none may be lost before it was read.
        WORK,
        /// The log: every record stays for as long as it is evidence.
        EVIDENCE,
        /// Text that is void once its completion is there: soon gone, and lost without harm.
        PREVIEW,
        /// Sealed salts: the newest of each key stays until it is erased, no longer than its leaf.
        SALTS
    }

    /// Every topic, the prompts topic first. `cosignatures` is made for the witnesses; the service itself does without.
    static List<TopicSpec> all(ServiceConfig config) {
        return List.of(
                of(config, "prompts", Nature.WORK, Partitions.AT_LEAST_PROMPTS),
                of(config, "completions", Nature.WORK, Partitions.AT_LEAST_PROMPTS),
                of(config, "audit", Nature.EVIDENCE, Partitions.AT_LEAST_PROMPTS),
                of(config, "checkpoints", Nature.EVIDENCE, Partitions.AT_LEAST_PROMPTS),
                of(config, "faults", Nature.EVIDENCE, Partitions.ONE),
                of(config, "dlq", Nature.WORK, Partitions.AT_LEAST_PROMPTS),
                of(config, "control", Nature.WORK, Partitions.AS_PROMPTS),
                of(config, "cancels", Nature.WORK, Partitions.AS_PROMPTS),
                of(config, "salts", Nature.SALTS, Partitions.AT_LEAST_PROMPTS),
                of(config, "deltas", Nature.PREVIEW, Partitions.AT_LEAST_PROMPTS),
                of(config, "cosignatures", Nature.EVIDENCE, Partitions.ONE));
    }

    private static TopicSpec of(ServiceConfig config, String use, Nature nature, Partitions partitions) {
        return new TopicSpec(use, config.string("topics." + use), nature, partitions);
    }

    /// Whether the service refuses to start without it.
    boolean needed() {
        return !use.equals("cosignatures");
    }

    /// Whether the service refuses to start while its settings are wrong. Of the others only their number of partitions
    /// is looked at then, which takes fewer rights.
    boolean guarded() {
        return needed() && (nature == Nature.EVIDENCE || nature == Nature.SALTS);
    }

    /// Partitions to make it with.
    int partitions(int prompts) {
        return partitions == Partitions.ONE ? 1 : prompts;
    }

    /// The settings to make it with.
    Map<String, String> settings(ServiceConfig config) {
        AuditTopicCheck.Requirements required = requirements(config);
        Map<String, String> settings = new HashMap<>();
        settings.put("max.message.bytes", Integer.toString(ProducerLimits.maxRequestBytes(config)));
        settings.put("min.insync.replicas", Integer.toString(required.insyncReplicas()));
        settings.put("unclean.leader.election.enable", "false");
        switch (nature) {
            case WORK -> settings.put("cleanup.policy", "delete");
            case EVIDENCE -> {
                settings.put("cleanup.policy", "delete");
                settings.put("message.timestamp.type", "LogAppendTime");
                settings.put("retention.ms", Long.toString(required.retention().toMillis()));
            }
            case PREVIEW -> {
                // Without small segments it would stay until 1 GB of it is full.
                settings.put("cleanup.policy", "delete");
                settings.put("retention.ms", Long.toString(PREVIEW_RETENTION.toMillis()));
                settings.put("segment.ms", Long.toString(PREVIEW_RETENTION.toMillis() / 4));
            }
            case SALTS -> {
                // Compacted, so that an erased salt goes; and no salt outlives its leaf.
                settings.put("cleanup.policy", "compact,delete");
                settings.put("retention.ms", Long.toString(required.retention().toMillis()));
                settings.put("max.compaction.lag.ms", Long.toString(Duration.ofHours(24).toMillis()));
            }
        }
        return settings;
    }

    /// What topics are made with, and must have: replicas, those in sync, retention of what is evidence.
    static AuditTopicCheck.Requirements requirements(ServiceConfig config) {
        return config.flag("audit.single.node")
                ? AuditTopicCheck.Requirements.SINGLE_NODE
                : AuditTopicCheck.Requirements.CLUSTER;
    }
}

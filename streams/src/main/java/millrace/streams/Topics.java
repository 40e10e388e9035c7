package millrace.streams;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import millrace.integrity.IntegrityException;
import millrace.integrity.audit.AuditTopicCheck;
import millrace.integrity.audit.AuditTopicCheck.Requirements;
import millrace.integrity.audit.AuditTopicCheck.TopicFacts;
import millrace.integrity.audit.AuditTopicCheck.Weakness;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.jspecify.annotations.Nullable;

/// Creates the service's topics, says what is wrong with those that are there, and refuses to start on topics that are
/// weaker than the service's promises. What each topic is made with and must be stands in [TopicSpec].
public final class Topics {
    private static final Duration VISIBLE_WITHIN = Duration.ofSeconds(30);

    /// A topic that is missing, or set up in a way that would break a promise.
    static final class UnsafeTopicException extends IllegalStateException {
        private static final long serialVersionUID = 1L;

        UnsafeTopicException(String code, String message) {
            super(code + ": " + message);
        }
    }

    /// A topic as it would be, or was, created.
    ///
    /// @param replicas -1 for the brokers' default
    public record Planned(String use, String name, int partitions, int replicas, Map<String, String> settings) {
        public Planned {
            settings = Map.copyOf(settings);
        }
    }

    private final ServiceConfig config;
    private final List<TopicSpec> specs;

    /// @throws IllegalStateException code `CONFIG_TOPICS` if one topic serves two purposes
    public Topics(ServiceConfig config) {
        this.config = config;
        this.specs = TopicSpec.all(config);
        List<String> names = specs.stream().map(TopicSpec::name).toList();
        if (Set.copyOf(names).size() != names.size()) {
            throw new UnsafeTopicException("CONFIG_TOPICS", "topics.*: expected different topics, got " + names);
        }
    }

    /// Creates what the service needs and is missing (where allowed), and refuses what would break a promise. Returns a
    /// line for the story of the start.
    String ensure(Admin admin) {
        List<TopicSpec> needed = specs.stream().filter(TopicSpec::needed).toList();
        List<Planned> missing = missing(admin, needed);
        if (!missing.isEmpty() && !config.flag("topics.create")) {
            throw new UnsafeTopicException(TopicFinding.MISSING, "topics " + missing.stream().map(Planned::name).toList()
                    + " do not exist; create them with `millrace topics create`, or set topics.create=true");
        }
        create(admin, missing);
        Map<String, TopicDescription> found = describe(admin, needed);
        refuse(partitions(found, needed));
        List<TopicFinding> unsafe = new ArrayList<>();
        needed.stream().filter(TopicSpec::guarded).forEach(spec -> unsafe.addAll(settings(admin, spec)));
        refuse(unsafe);
        TopicDescription prompts = found.get(specs.getFirst().name());
        return "%s (%d partitions) -> %s, %s".formatted(prompts.name(), prompts.partitions().size(),
                config.string("topics.completions"), config.string("topics.audit"));
    }

    private static void refuse(List<TopicFinding> findings) {
        for (TopicFinding finding : findings) {
            if (finding.code().equals(TopicFinding.PARTITIONS) || finding.code().equals(TopicFinding.SALTS)) {
                throw new UnsafeTopicException(finding.code(), finding.text());
            }
        }
        List<Weakness> evidence = findings.stream().filter(finding -> finding.code().equals(TopicFinding.EVIDENCE))
                .map(finding -> new Weakness(finding.topic(), finding.setting(), finding.expected(), finding.got())).toList();
        if (!evidence.isEmpty()) {
            throw AuditTopicCheck.unsafe(evidence);
        }
    }

    /// What [#create] would create, or nothing when all is there.
    public List<Planned> missing(Admin admin) {
        return missing(admin, specs);
    }

    private List<Planned> missing(Admin admin, List<TopicSpec> wanted) {
        Set<String> existing = get(admin.listTopics().names());
        String prompts = config.string("topics.prompts");
        int partitions = existing.contains(prompts)
                ? known(() -> get(admin.describeTopics(List.of(prompts)).allTopicNames())).get(prompts).partitions().size()
                : config.integer("topics.partitions");
        return wanted.stream().filter(spec -> !existing.contains(spec.name()))
                .map(spec -> new Planned(spec.use(), spec.name(), spec.partitions(partitions),
                        config.integer("topics.replication.factor"), spec.settings(config)))
                .toList();
    }

    /// Creates these topics and returns when a broker knows them.
    public void create(Admin admin, List<Planned> missing) {
        if (missing.isEmpty()) {
            return;
        }
        List<String> names = missing.stream().map(Planned::name).toList();
        Map<String, KafkaFuture<Void>> results = admin.createTopics(missing.stream().map(planned -> new NewTopic(
                        planned.name(), Optional.of(planned.partitions()),
                        planned.replicas() < 0 ? Optional.empty() : Optional.of((short) planned.replicas()))
                .configs(planned.settings())).toList()).values();
        for (Map.Entry<String, KafkaFuture<Void>> result : results.entrySet()) {
            try {
                result.getValue().get();
            } catch (ExecutionException e) {
                // Another instance may have been faster.
                if (!(e.getCause() instanceof TopicExistsException)) {
                    throw new KafkaException("cannot create topic " + result.getKey() + ": " + e.getCause().getMessage(), e.getCause());
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new KafkaException("interrupted while creating topics " + names, e);
            }
        }
        try {
            known(() -> get(admin.describeTopics(names).allTopicNames()));
        } catch (KafkaException e) {
            throw new KafkaException("topics " + names + " were created but do not appear: " + e.getMessage(), e);
        }
    }

    /// What is asked about topics that one broker has named or made. Another broker, which answers now, may not have heard of
    /// them yet: then it is asked again.
    private static <T> T known(Supplier<T> question) {
        long until = System.nanoTime() + VISIBLE_WITHIN.toNanos();
        while (true) {
            try {
                return question.get();
            } catch (KafkaException | IntegrityException e) {
                if (!isUnheard(e) || System.nanoTime() > until) {
                    throw e;
                }
                pause();
            }
        }
    }

    private static boolean isUnheard(Throwable thrown) {
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            if (cause instanceof UnknownTopicOrPartitionException) {
                return true;
            }
        }
        return false;
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /// Everything that is wrong with the topics, those that the start does not look at included; missing ones first.
    /// It changes nothing.
    public List<TopicFinding> check(Admin admin) {
        Set<String> existing = get(admin.listTopics().names());
        List<TopicFinding> findings = new ArrayList<>();
        specs.stream().filter(spec -> spec.needed() && !existing.contains(spec.name())).forEach(spec -> findings.add(new TopicFinding(
                TopicFinding.MISSING, spec.name(), "topic", "it to exist", "none", "", "millrace topics create")));
        List<TopicSpec> there = specs.stream().filter(spec -> existing.contains(spec.name())).toList();
        findings.addAll(partitions(describe(admin, there), there));
        there.forEach(spec -> findings.addAll(settings(admin, spec)));
        return findings;
    }

    /// How many partitions each topic has, nothing where there is none of that name.
    public Map<String, Integer> partitions(Admin admin) {
        Set<String> existing = get(admin.listTopics().names());
        return describe(admin, specs.stream().filter(spec -> existing.contains(spec.name())).toList()).values().stream()
                .collect(Collectors.toMap(TopicDescription::name, topic -> topic.partitions().size()));
    }

    private static Map<String, TopicDescription> describe(Admin admin, List<TopicSpec> wanted) {
        return known(() -> get(admin.describeTopics(wanted.stream().map(TopicSpec::name).toList()).allTopicNames()));
    }

    private List<TopicFinding> partitions(Map<String, TopicDescription> found, List<TopicSpec> wanted) {
        String prompts = config.string("topics.prompts");
        if (!found.containsKey(prompts)) {
            return List.of();
        }
        int inputs = found.get(prompts).partitions().size();
        List<TopicFinding> findings = new ArrayList<>();
        for (TopicSpec spec : wanted) {
            int count = found.get(spec.name()).partitions().size();
            if (count < spec.partitions(inputs)) {
                findings.add(new TopicFinding(TopicFinding.PARTITIONS, spec.name(), "partitions",
                        "at least " + inputs + " as " + prompts + " has", Integer.toString(count), "add partitions",
                        Integer.toString(inputs)));
            } else if (spec.partitions() == TopicSpec.Partitions.AS_PROMPTS && count > inputs) {
                findings.add(new TopicFinding(TopicFinding.PARTITIONS, spec.name(), "partitions",
                        inputs + " as " + prompts + " has", Integer.toString(count), spec.use().equals("cancels")
                                ? "a cancellation goes to the partition of its prompt"
                                : "an order goes to the partition of its log",
                        "partitions cannot be taken away: delete " + spec.name() + " while nothing waits in it,"
                                + " then `millrace topics create`"));
            }
        }
        return findings;
    }

    private List<TopicFinding> settings(Admin admin, TopicSpec spec) {
        TopicFacts facts = facts(admin, spec.name());
        Requirements required = TopicSpec.requirements(config);
        List<TopicFinding> findings = new ArrayList<>();
        String cleanup = facts.config().getOrDefault("cleanup.policy", "delete");
        if (spec.nature() == TopicSpec.Nature.SALTS && !cleanup.contains("compact")) {
            findings.add(new TopicFinding(TopicFinding.SALTS, spec.name(), "cleanup.policy", "compact, or compact,delete",
                    cleanup, "otherwise erased salts stay readable", "compact,delete"));
        }
        boolean evidence = spec.nature() == TopicSpec.Nature.EVIDENCE;
        Map<String, String> made = spec.settings(config);
        for (Weakness weakness : AuditTopicCheck.weaknesses(facts, 1, required)) {
            String why = evidence ? "evidence could be lost" : risk(spec, weakness.setting());
            if (why != null) {
                findings.add(new TopicFinding(evidence ? TopicFinding.EVIDENCE : TopicFinding.WEAK, spec.name(), weakness.setting(),
                        weakness.expected(), weakness.got(), why, mend(weakness.setting(), made, required)));
            }
        }
        long most = Long.parseLong(facts.config().getOrDefault("max.message.bytes", "0"));
        int needed = ProducerLimits.maxRequestBytes(config);
        if (most < needed) {
            findings.add(new TopicFinding(TopicFinding.WEAK, spec.name(), "max.message.bytes", "at least " + needed,
                    Long.toString(most), "a record of intake.max.bytes would be refused by the broker", Integer.toString(needed)));
        }
        addOldPreviews(spec, facts, made, findings);
        return findings;
    }

    private static void addOldPreviews(TopicSpec spec, TopicFacts facts, Map<String, String> made, List<TopicFinding> findings) {
        String ms = facts.config().getOrDefault("retention.ms", "-1");
        long longest = TopicSpec.LONGEST_PREVIEW_RETENTION.toMillis();
        if (spec.nature() == TopicSpec.Nature.PREVIEW && (Long.parseLong(ms) < 0 || Long.parseLong(ms) > longest)) {
            findings.add(new TopicFinding(TopicFinding.WEAK, spec.name(), "retention.ms", "at most " + longest, ms,
                    "text stays that nobody needs once its completion is there", made.getOrDefault("retention.ms", "")));
        }
    }

    /// What such a weakness means where nothing is evidence; null where it means nothing.
    private static @Nullable String risk(TopicSpec spec, String setting) {
        if (spec.nature() == TopicSpec.Nature.PREVIEW && !setting.equals("cleanup.policy")) {
            return null;
        }
        return switch (setting) {
            case "cleanup.policy" -> spec.nature() == TopicSpec.Nature.SALTS
                    ? null : "records of one key would be removed before they are read";
            case "replicas", "min.insync.replicas" -> "what was acknowledged is lost with one broker";
            case "unclean.leader.election.enable" -> "a broker that was behind may become leader, and what was acknowledged is lost";
            default -> null;
        };
    }

    private static String mend(String setting, Map<String, String> made, Requirements required) {
        return switch (setting) {
            case "replicas" -> Integer.toString(required.replicas());
            case "retention.bytes" -> "-1";
            default -> made.getOrDefault(setting, "");
        };
    }

    /// How long the audit topic keeps leaves; null for ever.
    @Nullable Duration auditRetention(Admin admin) {
        String ms = facts(admin, config.string("topics.audit")).config().getOrDefault("retention.ms", "-1");
        return Long.parseLong(ms) < 0 ? null : Duration.ofMillis(Long.parseLong(ms));
    }

    private static TopicFacts facts(Admin admin, String topic) {
        return known(() -> AuditTopicCheck.read(admin, topic));
    }

    private static <T> T get(KafkaFuture<T> future) {
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

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.TopicFinding;
import millrace.streams.Topics;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ExitCode;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `topics create`: every topic of a service, safely set up.
@Command(
        name = "create",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Creates the topics of a service that are missing, with the settings that its promises need, and then checks",
            "all of them as `topics check` does. Topics that are there are never changed, so it may be run again. The",
            "internal topics, whose names begin with the application id, are made by the service."
        },
        footer = {
            "",
            "Examples:",
            "  millrace topics create -b b1:9092,b2:9092,b3:9092 --partitions 12",
            "  millrace topics create --config service.properties --dry-run",
            "  millrace topics create -b 127.0.0.1:9092 -D audit.single.node=true",
            "",
            "The number of partitions is the number of logs and the most instances that can serve; choose it once. An",
            "existing prompts topic decides it for the others. Needs CREATE, DESCRIBE and DESCRIBE_CONFIGS.",
            "",
            "Exit codes: 0 all topics are there and safe (with --dry-run: or would be), 1 an existing topic is wrong,",
            "3 usage or no answer of the cluster."
        })
final class TopicsCreateCommand implements Callable<Integer> {
    @Option(names = "--partitions", paramLabel = "N", description = "Partitions of new topics (default: topics.partitions).")
    @Nullable Integer partitions;

    @Option(names = "--replication-factor", paramLabel = "N",
            description = "Replicas of new topics (default: topics.replication.factor, else 3, or 1 with audit.single.node).")
    @Nullable Integer replicas;

    @Option(names = "--dry-run", description = "Says what would be created, with every setting, and creates nothing.")
    boolean dryRun;

    @Mixin
    TopicsOptions topics = new TopicsOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    TopicsCreateCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, topics.json);
        return console.guarded(() -> create(console));
    }

    private int create(AuditConsole console) throws IOException {
        ServiceConfig config = config();
        try (Admin admin = new KafkaClients(config).admin()) {
            Topics all = new Topics(config);
            List<Topics.Planned> missing = all.missing(admin);
            requireBrokers(admin, config.integer("topics.replication.factor"), missing);
            Map<String, Integer> there = all.partitions(admin);
            requirePartitions(there, config);
            if (!dryRun) {
                all.create(admin, missing);
            }
            List<TopicFinding> findings = new ArrayList<>(all.check(admin));
            if (dryRun) {
                findings.removeIf(finding -> missing.stream().anyMatch(planned -> planned.name().equals(finding.topic())));
            }
            tell(console, config, missing, there, findings);
            return findings.isEmpty() ? ExitCode.OK : TopicsCommand.WRONG;
        }
    }

    private ServiceConfig config() throws IOException {
        Map<String, String> given = new LinkedHashMap<>();
        if (partitions != null) {
            given.put("topics.partitions", partitions.toString());
        }
        if (replicas != null) {
            given.put("topics.replication.factor", replicas.toString());
        }
        ServiceConfig config = topics.load(given);
        return config.integer("topics.replication.factor") > 0
                ? config
                : config.with(Map.of("topics.replication.factor", config.flag("audit.single.node") ? "1" : "3"));
    }

    private static void requireBrokers(Admin admin, int replicas, List<Topics.Planned> missing) {
        int brokers;
        try {
            brokers = admin.describeCluster().nodes().get().size();
        } catch (ExecutionException e) {
            throw new KafkaException("the cluster did not answer: " + e.getCause().getMessage(), e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while asking the cluster", e);
        }
        if (!missing.isEmpty() && brokers < replicas) {
            throw new IllegalArgumentException("topics.replication.factor: expected at most the number of brokers (" + brokers
                    + "), got " + replicas + "; add brokers, or say that a single one is meant: -D audit.single.node=true");
        }
    }

    private void requirePartitions(Map<String, Integer> there, ServiceConfig config) {
        Integer prompts = there.get(config.string("topics.prompts"));
        if (partitions != null && prompts != null && !prompts.equals(partitions)) {
            throw new IllegalArgumentException("--partitions: expected " + prompts + ", as " + config.string("topics.prompts")
                    + " has, got " + partitions + "; leave it out, or raise the outputs and then the prompts with kafka-topics.sh --alter");
        }
    }

    private void tell(
            AuditConsole console, ServiceConfig config, List<Topics.Planned> missing, Map<String, Integer> there,
            List<TopicFinding> findings) {
        if (topics.json) {
            ObjectNode line = topics.object(config, findings).put("dry_run", dryRun);
            ArrayNode array = line.putArray("created");
            missing.forEach(planned -> {
                ObjectNode topic = array.addObject().put("topic", planned.name()).put("partitions", planned.partitions())
                        .put("replicas", planned.replicas());
                new TreeMap<>(planned.settings()).forEach(topic.putObject("settings")::put);
            });
            new TreeMap<>(there).keySet().forEach(line.putArray("present")::add);
            console.print(line);
            return;
        }
        for (Topics.Planned planned : missing) {
            console.say((dryRun ? "would create " : "created ") + planned.name() + ": " + planned.partitions() + " partitions, "
                    + planned.replicas() + " replicas, " + new TreeMap<>(planned.settings()).entrySet().stream()
                            .map(setting -> setting.getKey() + "=" + setting.getValue()).collect(Collectors.joining(", ")));
        }
        topics.tell(console, config, findings);
        int total = missing.size() + there.size();
        console.say(findings.isEmpty() ? total + " topics: " + missing.size() + (dryRun ? " to create, " : " created, ")
                + there.size() + " were there: ok" : findings.size() + " wrong");
    }
}

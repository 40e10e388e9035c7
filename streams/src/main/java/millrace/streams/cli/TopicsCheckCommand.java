package millrace.streams.cli;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.TopicFinding;
import millrace.streams.Topics;
import org.apache.kafka.clients.admin.Admin;
import picocli.CommandLine.Command;
import picocli.CommandLine.ExitCode;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// `topics check`: what is wrong with the topics of a cluster.
@Command(
        name = "check",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Compares the topics of a cluster with what the service's promises need, and names every setting that is",
            "wrong, with what was expected, what it is, what it leads to and the command that mends it. Changes nothing.",
            "Needs DESCRIBE and DESCRIBE_CONFIGS of the topics."
        },
        footer = {
            "",
            "Examples:",
            "  millrace topics check",
            "  millrace topics check -b b1:9092 --command-config admin.properties --json",
            "  millrace topics check -D audit.single.node=true",
            "",
            "The code TOPIC_WEAK stands for a setting with which the service runs at a risk; with all others it refuses to",
            "start. On a cluster of one broker give -D audit.single.node=true, as the service itself wants it.",
            "",
            "Exit codes: 0 all topics are there and safe, 1 a topic is missing or wrong, 3 usage or no answer of the cluster."
        })
final class TopicsCheckCommand implements Callable<Integer> {
    @Mixin
    TopicsOptions topics = new TopicsOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    TopicsCheckCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, topics.json);
        return console.guarded(() -> check(console));
    }

    private int check(AuditConsole console) throws IOException {
        ServiceConfig config = topics.load(Map.of());
        try (Admin admin = new KafkaClients(config).admin()) {
            Topics all = new Topics(config);
            List<TopicFinding> findings = all.check(admin);
            if (topics.json) {
                console.print(topics.object(config, findings));
            } else {
                topics.tell(console, config, findings);
                console.say(findings.isEmpty() ? all.partitions(admin).size() + " topics checked: ok" : findings.size() + " wrong");
            }
            return findings.isEmpty() ? ExitCode.OK : TopicsCommand.WRONG;
        }
    }
}

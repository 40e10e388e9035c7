package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.streams.ServiceConfig;
import millrace.streams.TopicFinding;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// What the commands about topics have in common: which cluster, and how findings are told.
final class TopicsOptions {
    @Option(names = {"-b", "--bootstrap"}, paramLabel = "HOST:PORT",
            description = "Bootstrap servers (default: kafka.bootstrap.servers of the configuration, else 127.0.0.1:9092).")
    @Nullable String bootstrap;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Mixin
    ConfigOptions options = new ConfigOptions();

    @Mixin
    CommandConfig commandConfig = new CommandConfig();

    /// @param given values that win over file and environment
    ServiceConfig load(Map<String, String> given) throws IOException {
        Map<String, String> all = new LinkedHashMap<>(given);
        if (bootstrap != null) {
            all.put("kafka.bootstrap.servers", bootstrap);
        }
        return commandConfig.over(options.load(Map.of("kafka.bootstrap.servers", "127.0.0.1:9092")).with(all));
    }

    /// How Kafka's own commands reach the same cluster.
    private String access(ServiceConfig config) {
        return "--bootstrap-server " + config.kafka().get("bootstrap.servers")
                + (commandConfig.file == null ? "" : " --command-config " + commandConfig.file);
    }

    /// Each finding with the command that mends it.
    void tell(AuditConsole console, ServiceConfig config, List<TopicFinding> findings) {
        for (TopicFinding finding : findings) {
            console.say(finding.code() + ": " + finding.text());
            console.say("    " + finding.command(access(config)));
        }
    }

    ObjectNode object(ServiceConfig config, List<TopicFinding> findings) {
        ObjectNode line = AuditConsole.object().put("verdict", findings.isEmpty() ? "ok" : "wrong");
        ArrayNode array = line.putArray("findings");
        for (TopicFinding finding : findings) {
            array.addObject().put("code", finding.code()).put("topic", finding.topic()).put("setting", finding.setting())
                    .put("expected", finding.expected()).put("got", finding.got()).put("why", finding.why())
                    .put("mend", finding.command(access(config)));
        }
        return line;
    }
}

package millrace.streams.cli;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.Callable;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditReport;
import millrace.integrity.audit.AuditVerifier;
import millrace.integrity.audit.WitnessPolicy;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit verify`: one verdict over a log as it is now.
@Command(
        name = "verify",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Reads the committed records of the audit topic, its checkpoints and the completions, and checks",
            "sequence, chain, leaf hashes, roots, signatures, and each completion against its leaf."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit verify --key log.pub",
            "  millrace audit verify --key log.pub --witness witnesses.pub --quorum 2",
            "  millrace audit verify --bootstrap broker:9092 --key example.com/log+0a1b2c3d+AQ... --json",
            "",
            "Exit codes: 0 ok, 1 violated, 2 cannot be decided, 3 usage or input/output."
        })
final class AuditVerifyCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Mixin
    AuditWitnessOptions witness = new AuditWitnessOptions();

    @Option(names = "--completions-topic", paramLabel = "TOPIC",
            description = "Topic of the completions (default: topics.completions).")
    @Nullable String completionsTopic;

    @Option(names = "--skip-completions", description = "Checks the log alone.")
    boolean skipCompletions;

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--settle-ms", paramLabel = "MS", defaultValue = "20000",
            description = "How long to wait for what one topic shows and another not yet (default: ${DEFAULT-VALUE}).")
    long settleMs;

    @Option(names = "--json", description = "Prints the report as one JSON object.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditVerifyCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> verify(console));
    }

    private int verify(AuditConsole console) throws IOException {
        ServiceConfig config = log.client.load();
        String completions = skipCompletions ? null
                : completionsTopic == null ? config.string("topics.completions") : completionsTopic;
        Duration settle = Duration.ofMillis(Math.max(0, settleMs));
        WitnessPolicy policy = witness.policy(config);
        if (log.client.registry == null) {
            return report(console, log.options(config, completions, partition, settle, null), policy);
        }
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry())) {
            return report(console, log.options(config, completions, partition, settle, registry::byId), policy);
        }
    }

    private int report(AuditConsole console, AuditOptions log, @Nullable WitnessPolicy policy) {
        AuditOptions options = policy == null ? log : log.with(policy);
        AuditReport report = AuditVerifier.run(options, console.progress());
        console.say(json ? report.json() : report.text().stripTrailing());
        return report.exitCode();
    }
}

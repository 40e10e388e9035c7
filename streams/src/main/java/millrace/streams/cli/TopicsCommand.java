package millrace.streams.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// Commands about the topics of a service.
@Command(
        name = "topics",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Creates the topics of a service with safe settings, or says what is wrong with those of a cluster.",
        synopsisSubcommandLabel = "COMMAND",
        footer = {
            "",
            "Examples:",
            "  millrace topics create -b b1:9092,b2:9092 --partitions 12",
            "  millrace topics check --config service.properties",
            "",
            "Exit codes: 0 all topics are there and safe, 1 a topic is missing or wrong, 3 usage or no answer of the cluster."
        },
        subcommands = {TopicsCreateCommand.class, TopicsCheckCommand.class})
final class TopicsCommand implements Callable<Integer> {
    /// The exit code that says that a topic is missing or wrong.
    static final int WRONG = 1;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    TopicsCommand() {}

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return AuditCommand.USAGE;
    }
}

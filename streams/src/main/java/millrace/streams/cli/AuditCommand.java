package millrace.streams.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// The auditor's commands: a thin door to `millrace.integrity.audit`.
@Command(
        name = "audit",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Verifies the audit log of a cluster, from outside; erases and retracts through the service.",
        synopsisSubcommandLabel = "COMMAND",
        footer = {"", "Exit codes: 0 ok, 1 violated, 2 cannot be decided, 3 usage or input/output."},
        subcommands = {
            AuditVerifyCommand.class,
            AuditFollowCommand.class,
            AuditProveCommand.class,
            AuditCheckProofCommand.class,
            AuditConsistencyCommand.class,
            AuditReconcileCommand.class,
            AuditEraseCommand.class,
            AuditRetractCommand.class,
            AuditSaltCommand.class,
            AuditOpenCommand.class,
            AuditReplayCommand.class,
            AuditLotteryCommand.class,
            AuditExportCommand.class,
            KeygenCommand.class
        })
final class AuditCommand implements Callable<Integer> {
    static final int OK = 0;
    static final int VIOLATED = 1;
    static final int UNDECIDED = 2;
    static final int USAGE = 3;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditCommand() {}

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return USAGE;
    }
}

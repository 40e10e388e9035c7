package millrace.streams.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// Batch jobs: a thin door to `millrace.streams.batch`.
@Command(
        name = "batch",
        mixinStandardHelpOptions = true,
        description = "Sends a file of requests and writes a file of answers, each line once, whatever is killed meanwhile.",
        synopsisSubcommandLabel = "COMMAND",
        footer = {
            "",
            "Examples:",
            "  millrace batch submit questions.jsonl",
            "  millrace batch status batch_0123456789abcdef0123",
            "  millrace batch fetch batch_0123456789abcdef0123 --output answers.jsonl --wait",
            "",
            "Each line of the file is a request as the OpenAI batch interface has them: custom_id, method (POST), url",
            "(/v1/chat/completions) and body. docs/gateway.md lists what a body may say.",
            "What is known of a batch lies in a directory, see --state. A command that was killed is run again and goes on.",
            "",
            "Exit codes: 0 done, 1 not done (yet) or failed, 2 wrong usage."
        },
        subcommands = {
            BatchSubmitCommand.class,
            BatchStatusCommand.class,
            BatchFetchCommand.class,
            BatchListCommand.class,
            BatchCancelCommand.class
        })
final class BatchCommand implements Callable<Integer> {
    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BatchCommand() {}

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return 2;
    }
}

package millrace.streams.cli;

import java.io.IOException;
import java.io.PrintWriter;
import java.util.Locale;
import java.util.concurrent.Callable;
import millrace.streams.bench.RecoveryBench;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// From a hard kill to the first completion.
@Command(name = "recovery", mixinStandardHelpOptions = true,
        description = "From a hard kill of the service to the first completion of its successor.",
        footer = {
            "",
            "Example:",
            "  millrace bench recovery --rounds 5",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchRecoveryCommand implements Callable<Integer> {
    @Option(names = "--model", paramLabel = "NAME", description = "glm-tiny, glm-tiny-mtp or kimi-tiny (default: ${DEFAULT-VALUE}).")
    String model = "glm-tiny";

    @Option(names = "--rounds", paramLabel = "N", description = "Kills (default: ${DEFAULT-VALUE}).")
    int rounds = 5;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BenchRecoveryCommand() {}

    @Override
    public Integer call() throws IOException, InterruptedException {
        PrintWriter err = spec.commandLine().getErr();
        double[] seconds = new RecoveryBench(model, rounds, Progress.lines(err)).run().stream().mapToDouble(Double::doubleValue).sorted().toArray();
        spec.commandLine().getOut().printf(Locale.ROOT,
                "kill to first new completion: median %.1f s (%.1f to %.1f, %d kills); every prompt was answered once%n",
                seconds[seconds.length / 2], seconds[0], seconds[seconds.length - 1], seconds.length);
        spec.commandLine().getOut().flush();
        return 0;
    }
}

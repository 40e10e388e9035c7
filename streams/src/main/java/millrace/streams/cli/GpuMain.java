package millrace.streams.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// The commands of the bundle: what a machine with a GPU and without Kafka's classes can run.
@Command(
        name = "millrace",
        mixinStandardHelpOptions = true,
        description = "Checks and benchmarks of Millrace's CUDA backend.",
        synopsisSubcommandLabel = "COMMAND",
        subcommands = {GpuMain.Gpu.class, GpuMain.Bench.class, CommandLine.HelpCommand.class})
public final class GpuMain implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    /// Picocli makes it.
    @SuppressWarnings("NullAway.Init")
    public GpuMain() {}

    public static void main(String[] arguments) {
        CommandLine line = new CommandLine(new GpuMain());
        line.setExecutionExceptionHandler((e, command, result) -> {
            command.getErr().println("millrace: " + (e.getMessage() == null ? e.toString() : e.getMessage()));
            return 1;
        });
        System.exit(line.execute(arguments));
    }

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return 2;
    }

    /// There is no checkout to bundle.
    @Command(name = "gpu", mixinStandardHelpOptions = true, description = "Checks of this machine's device.",
            subcommands = GpuCheckCommand.class, synopsisSubcommandLabel = "COMMAND")
    static final class Gpu {}

    /// The benchmarks of the engine alone.
    @Command(name = "bench", mixinStandardHelpOptions = true, description = "Benchmarks of the engine.",
            subcommands = {BenchKernelsCommand.class, BenchEngineCommand.class}, synopsisSubcommandLabel = "COMMAND")
    static final class Bench {}
}

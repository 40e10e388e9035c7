package millrace.streams.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// Checks of the CUDA backend on a machine with a GPU.
@Command(
        name = "gpu",
        mixinStandardHelpOptions = true,
        description = "Makes a bundle that needs a GPU's driver and nothing else, and runs its checks and benchmarks.",
        subcommands = {GpuBundleCommand.class, GpuCheckCommand.class},
        footer = {
            "",
            "Examples:",
            "  millrace gpu bundle --out millrace-gpu.tar.gz",
            "  tar -xzf millrace-gpu.tar.gz && ./millrace-gpu/millrace gpu check --out results",
            "  millrace gpu check --driver standin        rehearse it on the CPU"
        })
final class GpuCommand implements Callable<Integer> {
    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    GpuCommand() {}

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return 2;
    }
}

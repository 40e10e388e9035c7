package millrace.streams.cli;

import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/// The limits of this machine.
@Command(name = "machine", mixinStandardHelpOptions = true,
        description = "What this machine offers: processor, caches, backends, and how fast plain loops read memory and "
                + "multiply and add.",
        footer = {
            "",
            "Example:",
            "  millrace bench machine --json",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchMachineCommand implements Callable<Integer> {
    @Mixin
    BenchOptions options = new BenchOptions();

    @Override
    public Integer call() {
        return options.run((limits, progress) -> List.of());
    }
}

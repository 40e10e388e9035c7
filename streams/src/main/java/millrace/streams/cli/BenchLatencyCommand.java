package millrace.streams.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.streams.bench.LatencyBench;
import millrace.streams.bench.Pace;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// What the pipeline adds to the engine's time.
@Command(name = "latency", mixinStandardHelpOptions = true,
        description = {
            "What the pipeline adds to the time that the engine takes, from sending a prompt to its committed completion, with prompts "
                    + "that arrive at random moments.",
            "The engine has a fixed rate, so that the load is known. Service, broker and client share this process."
        },
        footer = {
            "",
            "Examples:",
            "  millrace bench latency",
            "  millrace bench latency --load 50,70,90 --rounds 3 --json",
            "  millrace bench latency --step 5 --batch 16 --tokens 64 --prompts 2000",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchLatencyCommand implements Callable<Integer> {
    @Mixin
    PacedOptions options = new PacedOptions();

    @Option(names = "--load", paramLabel = "PERCENT", split = ",",
            description = "Arrival rates as shares of what the engine can answer, 1 to 99 (default: 70).")
    List<Integer> loads = new ArrayList<>(List.of(70));

    @Option(names = "--prompts", paramLabel = "N", description = "Prompts at each rate in each round (default: ${DEFAULT-VALUE}).")
    int prompts = 1_000;

    @Override
    public Integer call() throws InterruptedException {
        Pace pace = options.pace();
        loads.forEach(load -> options.within("--load", load, 1, 99));
        options.within("--prompts", prompts, 1, 1_000_000);
        var settings = new LatencyBench.Settings(pace, loads, prompts, options.rounds());
        return options.run(() -> new LatencyBench(settings, options.progress()).run(options.overrides));
    }
}

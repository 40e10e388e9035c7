package millrace.streams.cli;

import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.streams.bench.ServiceBench;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// What the service adds around an engine that answers at once.
@Command(name = "service", mixinStandardHelpOptions = true,
        description = "What the service adds around an engine that answers at once: latency at a rate, and a burst.",
        footer = {
            "",
            "Examples:",
            "  millrace bench service",
            "  millrace bench service --rate 50 --prompts 1000 --rounds 3",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchServiceCommand implements Callable<Integer> {
    @Option(names = "--rate", paramLabel = "N", description = "Prompts per second (default: ${DEFAULT-VALUE}).")
    int rate = 50;

    @Option(names = "--prompts", paramLabel = "N", description = "Prompts at that rate (default: ${DEFAULT-VALUE}).")
    int prompts = 1_000;

    @Option(names = "--burst", paramLabel = "N", description = "Prompts of the burst (default: ${DEFAULT-VALUE}).")
    int burst = 20_000;

    @Option(names = "--rounds", paramLabel = "N", description = "Repetitions, each with a cluster of its own (default: ${DEFAULT-VALUE}).")
    int rounds = 3;

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BenchServiceCommand() {}

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        Consumer<String> progress = Progress.lines(spec.commandLine().getErr());
        for (int round = 1; round <= rounds; round++) {
            String name = "round " + round + ": ";
            ServiceBench.Result result =
                    new ServiceBench(rate, prompts, burst, line -> progress.accept(name + line)).run(overrides);
            out.printf(Locale.ROOT, "round %d  direct   %s%n", round, result.direct());
            out.printf(Locale.ROOT, "round %d  service  %s%n", round, result.service());
            out.printf(Locale.ROOT, "round %d  burst    %.0f prompts/s, %.0f us of processor time each (n=%d)%n",
                    round, result.burstPerSecond(), result.burstCpuMicros(), result.burst());
            out.flush();
        }
        return 0;
    }
}

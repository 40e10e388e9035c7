package millrace.streams.cli;

import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.streams.bench.ThroughputBench;
import millrace.streams.demo.Question;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// The engine alone and the whole service, in turns.
@Command(name = "throughput", mixinStandardHelpOptions = true,
        description = "The demo questions through the engine alone and through the whole service, in turns.",
        footer = {
            "",
            "Example:",
            "  millrace bench throughput --model glm-tiny --rounds 5",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchThroughputCommand implements Callable<Integer> {
    @Option(names = "--model", paramLabel = "NAME", description = "glm-tiny, glm-tiny-mtp or kimi-tiny (default: ${DEFAULT-VALUE}).")
    String model = "glm-tiny";

    @Option(names = "--questions", paramLabel = "N", description = "Questions per round (default: ${DEFAULT-VALUE}).")
    int questions = 6_000;

    @Option(names = "--rounds", paramLabel = "N", description = "Rounds after the warm-up (default: ${DEFAULT-VALUE}).")
    int rounds = 5;

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BenchThroughputCommand() {}

    @Override
    public Integer call() {
        PrintWriter err = spec.commandLine().getErr();
        Map<String, String> settings = new LinkedHashMap<>(Map.of("engine.model", model));
        settings.putAll(overrides);
        List<ThroughputBench.Round> all = new ThroughputBench(Question.of(model, questions), rounds, Progress.lines(err)).run(settings, ServeCommand::open);
        double[] ratios = all.stream().mapToDouble(ThroughputBench.Round::ratio).sorted().toArray();
        spec.commandLine().getOut().printf(Locale.ROOT,
                "service over engine: median %.2f (%.2f to %.2f, %d rounds); the answers are the same tokens%n",
                ratios[ratios.length / 2], ratios[0], ratios[ratios.length - 1], ratios.length);
        spec.commandLine().getOut().flush();
        return 0;
    }
}

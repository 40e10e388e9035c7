package millrace.streams.cli;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.ServeBench;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// The whole service through Kafka.
@Command(name = "serve", mixinStandardHelpOptions = true,
        description = "A bundled model behind an embedded broker: throughput against the engine alone, and latency with "
                + "prompts that arrive at random moments.",
        footer = {
            "",
            "Example:",
            "  millrace bench serve --load 70 --json",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchServeCommand implements Callable<Integer> {
    @Mixin
    BenchOptions options = new BenchOptions();

    @Option(names = "--model", paramLabel = "NAME", description = "glm-tiny, glm-tiny-mtp or kimi-tiny (default: ${DEFAULT-VALUE}).")
    String model = "glm-tiny";

    @Option(names = "--load", paramLabel = "PERCENT", split = ",",
            description = "Arrival rates as shares of the service's throughput (default: 25,50,75,90).")
    List<String> loads = List.of("25", "50", "75", "90");

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    @Override
    public Integer call() {
        options.names("--model", List.of(model), millrace.streams.Models.bundled());
        List<Integer> shares = options.numbers("--load", loads, 1, 1_000);
        return options.run((limits, progress) -> measure(options, model, shares, overrides, progress));
    }

    static List<BenchResult> measure(
            BenchOptions options, String model, List<Integer> shares, Map<String, String> overrides, Consumer<String> progress) {
        var settings = new ServeBench.Settings(
                model, options.quick ? 800 : 4_000, shares, options.quick ? 1.5 : 4, options.quick ? 2 : 3,
                Math.min(options.quick ? 2 : 5, options.rounds()));
        Map<String, String> all = new LinkedHashMap<>();
        if (options.threads > 0) {
            all.put("engine.threads", Integer.toString(options.threads));
        }
        all.putAll(overrides);
        return new ServeBench(settings, progress).run(all, ServeCommand::open);
    }
}

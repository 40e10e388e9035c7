package millrace.streams.cli;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.engine.EngineConfig;
import millrace.streams.ServiceConfig;
import millrace.streams.bench.DecodeBench;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Decode against a plain read loop.
@Command(name = "decode", mixinStandardHelpOptions = true,
        description = "Decode of a dense model far larger than the caches, against a plain read loop in the same run.",
        footer = {
            "",
            "Examples:",
            "  millrace bench decode",
            "  millrace bench decode --model DIR --tokens 64 --rounds 5",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchDecodeCommand implements Callable<Integer> {
    @Option(names = "--model", paramLabel = "DIR",
            description = "A dense BF16 checkpoint (default: random weights of about 1e9 parameters, written to a temporary directory).")
    @Nullable Path model;

    @Option(names = "--tokens", paramLabel = "N", description = "Tokens per round (default: ${DEFAULT-VALUE}).")
    int tokens = 24;

    @Option(names = "--rounds", paramLabel = "N", description = "Rounds (default: ${DEFAULT-VALUE}).")
    int rounds = 5;

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key, such as engine.threads. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BenchDecodeCommand() {}

    @Override
    public Integer call() {
        if (model != null) {
            return measure(model);
        }
        try (BenchModel random = BenchModel.of("random:llama:1b", null, Progress.lines(spec.commandLine().getErr()))) {
            return measure(random.directory());
        }
    }

    private int measure(Path directory) {
        PrintWriter err = spec.commandLine().getErr();
        Map<String, String> settings = new LinkedHashMap<>(Map.of("engine.max.batch", "1"));
        settings.putAll(overrides);
        EngineConfig config = ServiceConfig.of(settings).engine(directory);
        List<DecodeBench.Round> all = new DecodeBench(config, tokens, rounds, Progress.lines(err)).run();
        double[] ratios = all.stream().mapToDouble(DecodeBench.Round::ratio).sorted().toArray();
        spec.commandLine().getOut().printf(Locale.ROOT,
                "decode over plain read: median %.2f (%.2f to %.2f, %d rounds)%n",
                ratios[ratios.length / 2], ratios[0], ratios[ratios.length - 1], ratios.length);
        spec.commandLine().getOut().flush();
        return 0;
    }
}

package millrace.streams.cli;

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.engine.DeveloperModels.RandomSpec;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.IntegrityBench;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// What the checks cost.
@Command(name = "integrity", mixinStandardHelpOptions = true,
        description = "What the checks of the profiles default and strict cost: the same work with them and without, in "
                + "turns. Goals: at most 1 and 5 percent.",
        footer = {
            "",
            "Example:",
            "  millrace bench integrity --json --rounds 5",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchIntegrityCommand implements Callable<Integer> {
    /// Sequences, prompt tokens of each, generated tokens of each.
    private static final int BATCH = 8;

    private static final int PROMPT = 64;
    private static final int TOKENS = 64;

    @Mixin
    BenchOptions options = new BenchOptions();

    @Option(names = "--model", paramLabel = "MODEL",
            description = "A checkpoint's directory, or random:ARCH:PARAMS (default: random:llama:100m, with --quick "
                    + "random:llama:30m).")
    @Nullable String model;

    @Option(names = "--keep", paramLabel = "DIR",
            description = "Writes a random model there and leaves it; one that is there already is used again.")
    @Nullable Path keep;

    @Option(names = "--batch", paramLabel = "N", description = "Sequences at once (default: ${DEFAULT-VALUE}).")
    int batch = BATCH;

    @Override
    public Integer call() {
        if (batch < 1 || batch > 1024) {
            throw options.wrong("--batch: expected a whole number from 1 to 1024, got \"" + batch + "\"");
        }
        String name = model == null ? model(options) : model;
        if (RandomSpec.isRandom(name)) {
            try {
                RandomSpec.parse(name);
            } catch (IllegalArgumentException e) {
                throw options.wrong("--model: " + e.getMessage());
            }
        }
        return options.run((limits, progress) -> measure(options, name, keep, batch, progress));
    }

    /// With the defaults.
    static List<BenchResult> measure(BenchOptions options, Consumer<String> progress) {
        return measure(options, model(options), null, BATCH, progress);
    }

    private static String model(BenchOptions options) {
        return options.quick ? "random:llama:30m" : "random:llama:100m";
    }

    private static List<BenchResult> measure(
            BenchOptions options, String name, @Nullable Path keep, int batch, Consumer<String> progress) {
        try (BenchModel local = BenchModel.of(name, keep, progress)) {
            // Pairs of a second or two: many of them say more than few long ones.
            return new IntegrityBench(
                            new IntegrityBench.Settings(
                                    local.directory(), local.label(), batch, PROMPT, TOKENS, 3 * options.rounds(),
                                    options.threads),
                            progress)
                    .run();
        }
    }
}

package millrace.streams.cli;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.streams.bench.PreviewBench;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// How soon a client sees a token.
@Command(name = "preview", mixinStandardHelpOptions = true,
        description = {
            "How soon a client sees a token: from its choice to the listener of the Java client, through a broker in the same process.",
            "Then the same to the socket of a client that streams from the gateway.",
            "An engine of equal steps gives every running prompt one word a step."
        },
        footer = {
            "",
            "Examples:",
            "  millrace bench preview --rounds 2",
            "  millrace bench preview --step 20 --tokens 100 --concurrency 8",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchPreviewCommand implements Callable<Integer> {
    @Option(names = "--step", paramLabel = "MS", description = "Milliseconds from token to token (default: ${DEFAULT-VALUE}).")
    int stepMs = 20;

    @Option(names = "--tokens", paramLabel = "N", description = "Tokens of an answer (default: ${DEFAULT-VALUE}).")
    int tokens = 100;

    @Option(names = "--concurrency", paramLabel = "N", description = "Prompts that run at once (default: ${DEFAULT-VALUE}).")
    int concurrency = 8;

    @Option(names = "--prompts", paramLabel = "N", description = "Prompts that are measured, after as many to warm up (default: ${DEFAULT-VALUE}).")
    int prompts = 80;

    @Option(names = "--rounds", paramLabel = "N", description = "Repetitions, each with a cluster of its own (default: ${DEFAULT-VALUE}).")
    int rounds = 3;

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BenchPreviewCommand() {}

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        Consumer<String> progress = Progress.lines(spec.commandLine().getErr());
        for (int round = 1; round <= rounds; round++) {
            progress.accept("round " + round + ": " + prompts + " prompts, " + concurrency + " at once, " + tokens + " tokens each");
            PreviewBench.Result result = new PreviewBench(Duration.ofMillis(stepMs), tokens, concurrency, prompts).run(overrides);
            out.printf(Locale.ROOT, "round %d  first token  %s%n", round, result.first());
            out.printf(Locale.ROOT, "round %d  every token  %s%n", round, result.every());
            out.printf(Locale.ROOT, "round %d  %d deltas for %d tokens, %d lost%n", round, result.deltas(), result.tokens(), result.lost());
            out.printf(Locale.ROOT, "round %d  first token, gateway  %s%n", round, result.gatewayFirst());
            out.printf(Locale.ROOT, "round %d  every token, gateway  %s%n", round, result.gatewayEvery());
            out.flush();
        }
        return 0;
    }
}

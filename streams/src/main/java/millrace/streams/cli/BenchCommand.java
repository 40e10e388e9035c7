package millrace.streams.cli;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.engine.DeveloperModels;
import millrace.engine.EngineConfig;
import millrace.streams.ScratchDirectory;
import millrace.streams.ServiceConfig;
import millrace.streams.bench.DecodeBench;
import millrace.streams.bench.RecoveryBench;
import millrace.streams.bench.ServiceBench;
import millrace.streams.bench.ThroughputBench;
import millrace.streams.demo.Question;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Measurements, with their spread.
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        description = "Measures the service and the engine on this machine.",
        subcommands = {BenchCommand.Service.class, BenchCommand.Throughput.class, BenchCommand.Decode.class, BenchCommand.Recovery.class},
        footer = {
            "",
            "Examples:",
            "  millrace bench service --rate 200 --burst 50000",
            "  millrace bench throughput --model kimi-tiny --questions 400",
            "  millrace bench decode",
            "  millrace bench recovery"
        })
final class BenchCommand implements Callable<Integer> {
    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    BenchCommand() {}

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return 2;
    }

    @Command(name = "service", mixinStandardHelpOptions = true,
            description = "What the service adds around an engine that answers at once: latency at a rate, and a burst.")
    static final class Service implements Callable<Integer> {
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
        Service() {}

        @Override
        public Integer call() {
            PrintWriter out = spec.commandLine().getOut();
            PrintWriter err = spec.commandLine().getErr();
            for (int round = 1; round <= rounds; round++) {
                int current = round;
                ServiceBench.Result result = new ServiceBench(rate, prompts, burst, line -> {
                    err.println("round " + current + ": " + line);
                    err.flush();
                }).run(overrides);
                out.printf(Locale.ROOT, "round %d  direct   %s%n", round, result.direct());
                out.printf(Locale.ROOT, "round %d  service  %s%n", round, result.service());
                out.printf(Locale.ROOT, "round %d  burst    %.0f prompts/s, %.0f us of processor time each (n=%d)%n",
                        round, result.burstPerSecond(), result.burstCpuMicros(), result.burst());
                out.flush();
            }
            return 0;
        }
    }

    @Command(name = "throughput", mixinStandardHelpOptions = true,
            description = "The demo questions through the engine alone and through the whole service, in turns.")
    static final class Throughput implements Callable<Integer> {
        @Option(names = "--model", paramLabel = "NAME", description = "glm-tiny or kimi-tiny (default: ${DEFAULT-VALUE}).")
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
        Throughput() {}

        @Override
        public Integer call() {
            PrintWriter err = spec.commandLine().getErr();
            Map<String, String> settings = new LinkedHashMap<>(Map.of("engine.model", model));
            settings.putAll(overrides);
            List<ThroughputBench.Round> all = new ThroughputBench(Question.of(model, questions), rounds, line -> {
                err.println(line);
                err.flush();
            }).run(settings, ServeCommand::open);
            double[] ratios = all.stream().mapToDouble(ThroughputBench.Round::ratio).sorted().toArray();
            spec.commandLine().getOut().printf(Locale.ROOT,
                    "service over engine: median %.2f (%.2f to %.2f, %d rounds); the answers are the same tokens%n",
                    ratios[ratios.length / 2], ratios[0], ratios[ratios.length - 1], ratios.length);
            spec.commandLine().getOut().flush();
            return 0;
        }
    }

    @Command(name = "decode", mixinStandardHelpOptions = true,
            description = "Decode of a dense model far larger than the caches, against a plain read loop in the same run.")
    static final class Decode implements Callable<Integer> {
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
        Decode() {}

        @Override
        public Integer call() throws IOException {
            if (model != null) {
                return measure(model);
            }
            try (ScratchDirectory scratch = ScratchDirectory.create("millrace-bench-")) {
                PrintWriter err = spec.commandLine().getErr();
                err.println("writing a model of random weights to " + scratch.path());
                err.flush();
                Path written = scratch.path().resolve("random-1b");
                DeveloperModels.writeRandomLlama(written, 1, DeveloperModels.LlamaShape.oneBillion());
                return measure(written);
            }
        }

        private int measure(Path directory) {
            PrintWriter err = spec.commandLine().getErr();
            Map<String, String> settings = new LinkedHashMap<>(Map.of("engine.max.batch", "1"));
            settings.putAll(overrides);
            EngineConfig config = ServiceConfig.of(settings).engine(directory);
            List<DecodeBench.Round> all = new DecodeBench(config, tokens, rounds, line -> {
                err.println(line);
                err.flush();
            }).run();
            double[] ratios = all.stream().mapToDouble(DecodeBench.Round::ratio).sorted().toArray();
            spec.commandLine().getOut().printf(Locale.ROOT,
                    "decode over plain read: median %.2f (%.2f to %.2f, %d rounds)%n",
                    ratios[ratios.length / 2], ratios[0], ratios[ratios.length - 1], ratios.length);
            spec.commandLine().getOut().flush();
            return 0;
        }
    }

    @Command(name = "recovery", mixinStandardHelpOptions = true,
            description = "From a hard kill of the service to the first completion of its successor.")
    static final class Recovery implements Callable<Integer> {
        @Option(names = "--model", paramLabel = "NAME", description = "glm-tiny or kimi-tiny (default: ${DEFAULT-VALUE}).")
        String model = "glm-tiny";

        @Option(names = "--rounds", paramLabel = "N", description = "Kills (default: ${DEFAULT-VALUE}).")
        int rounds = 5;

        @Spec
        CommandSpec spec;

        @SuppressWarnings("NullAway.Init") // picocli sets spec
        Recovery() {}

        @Override
        public Integer call() throws IOException, InterruptedException {
            PrintWriter err = spec.commandLine().getErr();
            double[] seconds = new RecoveryBench(model, rounds, line -> {
                err.println(line);
                err.flush();
            }).run().stream().mapToDouble(Double::doubleValue).sorted().toArray();
            spec.commandLine().getOut().printf(Locale.ROOT,
                    "kill to first new completion: median %.1f s (%.1f to %.1f, %d kills); every prompt was answered once%n",
                    seconds[seconds.length / 2], seconds[0], seconds[seconds.length - 1], seconds.length);
            spec.commandLine().getOut().flush();
            return 0;
        }
    }
}

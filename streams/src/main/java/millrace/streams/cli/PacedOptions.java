package millrace.streams.cli;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import millrace.streams.bench.BenchReport;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.MachineBench;
import millrace.streams.bench.Pace;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options of benches whose engine has a fixed rate, and their report.
final class PacedOptions {
    @Spec(Spec.Target.MIXEE)
    @Nullable CommandSpec spec;

    @Option(names = "--step", paramLabel = "MS", description = "Milliseconds from token to token (default: ${DEFAULT-VALUE}).")
    int stepMs = 20;

    @Option(names = "--batch", paramLabel = "N", description = "Prompts that an engine runs at once (default: ${DEFAULT-VALUE}).")
    int batch = 32;

    @Option(names = "--tokens", paramLabel = "N", description = "Tokens of an answer (default: ${DEFAULT-VALUE}).")
    int tokens = 32;

    @Option(names = "--rounds", paramLabel = "N", description = "Rounds after the warm-up (default: ${DEFAULT-VALUE}).")
    int rounds = 5;

    @Option(names = "--json", description = "One line of JSON on standard output instead of tables.")
    boolean json;

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    Pace pace() {
        return new Pace(Duration.ofMillis(within("--step", stepMs, 1, 60_000)), within("--batch", batch, 1, 1_024),
                within("--tokens", tokens, 1, 100_000));
    }

    int rounds() {
        return within("--rounds", rounds, 1, 1_000);
    }

    int within(String option, int value, int least, int most) {
        if (value < least || value > most) {
            throw wrong(option + ": expected a whole number from " + least + " to " + most + ", got \"" + value + "\"");
        }
        return value;
    }

    ParameterException wrong(String message) {
        return new ParameterException(command().commandLine(), message);
    }

    Consumer<String> progress() {
        return Progress.lines(command().commandLine().getErr());
    }

    /// Measures several things.
    interface Measurement {
        List<BenchResult> measure() throws InterruptedException;
    }

    /// Measures and prints what came of it.
    ///
    /// @return 0
    int run(Measurement measurement) throws InterruptedException {
        MachineBench.Limits machine = MachineBench.Limits.unmeasured();
        BenchReport report = new BenchReport(machine, measurement.measure());
        PrintWriter out = command().commandLine().getOut();
        out.print(json ? report.json() + "\n" : report.text());
        out.flush();
        return 0;
    }

    private CommandSpec command() {
        if (spec == null) {
            throw new IllegalStateException("picocli sets the command");
        }
        return spec;
    }
}

package millrace.streams.cli;

import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import millrace.streams.bench.BenchDocument;
import millrace.streams.bench.BenchReport;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.Chart;
import millrace.streams.bench.MachineBench;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Options of every bench that reports in JSON and charts, and the frame of its run: limits of the machine first, then
/// the measurement, then the report.
final class BenchOptions {
    static final List<String> BACKENDS = List.of("auto", "cuda", "native", "vector", "scalar");

    @Spec(Spec.Target.MIXEE)
    @Nullable CommandSpec spec;

    @Option(names = "--json", description = "One line of JSON on standard output instead of tables.")
    boolean json;

    @Option(names = "--quick", description = "Fewer rounds and smaller sizes: minutes become seconds, and the spread grows.")
    boolean quick;

    @Option(names = "--rounds", paramLabel = "N", description = "Rounds after the warm-up; default: 7, with --quick 3.")
    @Nullable Integer rounds;

    @Option(names = "--threads", paramLabel = "N", description = "Compute threads; default: one per core.")
    int threads;

    @Option(names = "--charts", paramLabel = "DIR", description = "Writes charts of the results there, as SVG.")
    @Nullable Path charts;

    @Option(names = "--write", paramLabel = "FILE",
            description = "Replaces what stands between the bench markers of a Markdown file by the results.")
    @Nullable Path document;

    /// Measures something; progress is one line at a time.
    interface Measurement {
        List<BenchResult> measure(MachineBench.Limits limits, Consumer<String> progress);
    }

    int run(Measurement measurement) {
        check();
        BenchReport report = report(measurement);
        Map<String, Chart> drawn = charts == null ? Map.of() : BenchDocument.writeCharts(charts, report);
        if (document != null) {
            BenchDocument.write(document, report, command(), drawn, folder());
        }
        PrintWriter out = command(spec).commandLine().getOut();
        out.print(json ? report.json() + "\n" : report.text());
        out.flush();
        return 0;
    }

    private BenchReport report(Measurement measurement) {
        Consumer<String> progress = progress();
        MachineBench.Limits limits = new MachineBench(threads, Math.min(5, rounds()), progress).run();
        if (limits.loadAverage() > 0.5) {
            progress.accept("machine: the load was %.1f: something else runs here, expect a wide spread".formatted(limits.loadAverage()));
        }
        return new BenchReport(limits, measurement.measure(limits, progress));
    }

    private void check() {
        if (rounds != null && (rounds < 1 || rounds > 1_000)) {
            throw wrong("--rounds: expected a whole number from 1 to 1000, got \"" + rounds + "\"");
        }
        if (threads < 0 || threads > 1_024) {
            throw wrong("--threads: expected a whole number from 0 to 1024, got \"" + threads + "\"");
        }
        if (document != null) {
            BenchDocument.check(document);
        }
    }

    int rounds() {
        return rounds != null ? rounds : quick ? 3 : 7;
    }

    Consumer<String> progress() {
        return Progress.lines(command(spec).commandLine().getErr());
    }

    /// The command line as one would type it.
    private String command() {
        List<String> words = new ArrayList<>(List.of("./millrace"));
        command(spec).commandLine().getParseResult().originalArgs().stream()
                .filter(word -> !word.equals("--json"))
                .forEach(words::add);
        return String.join(" ", words);
    }

    /// Where the charts are, seen from the document.
    private String folder() {
        if (charts == null || document == null) {
            return "";
        }
        Path from = document.toAbsolutePath().normalize().getParent();
        Path to = charts.toAbsolutePath().normalize();
        return (from == null ? to : from.relativize(to)).toString().replace('\\', '/') + "/";
    }

    /// The whole numbers of a list like `1,2,4`.
    List<Integer> numbers(String option, List<String> values, int least, int most) {
        return values.stream().map(value -> {
            if (value.matches("\\d{1,9}") && Integer.parseInt(value) >= least && Integer.parseInt(value) <= most) {
                return Integer.valueOf(value);
            }
            throw wrong(option + ": expected whole numbers from " + least + " to " + most + ", got \"" + value + "\"");
        }).distinct().toList();
    }

    /// The names of a list, each one of those that there are.
    List<String> names(String option, List<String> values, List<String> known) {
        for (String value : values) {
            if (!known.contains(value)) {
                throw wrong(option + ": expected " + String.join(", ", known) + ", got \"" + value + "\"");
            }
        }
        return values.stream().distinct().toList();
    }

    /// What was asked for, or what the processor has but the scalar backend, which is the specification and slow. A GPU is
    /// measured where it is asked for: its operands lie in another memory than the one that results are compared with.
    List<String> backends(@Nullable List<String> asked, MachineBench.Limits limits) {
        List<String> available = limits.machine().available();
        if (asked == null) {
            List<String> fast = available.stream().filter(name -> !name.equals("scalar") && !name.equals("cuda")).toList();
            return fast.isEmpty() ? available : fast;
        }
        return asked.stream().flatMap(name -> name.equals("auto") ? Stream.of(available.getFirst()) : Stream.of(name))
                .distinct().toList();
    }

    ParameterException wrong(String message) {
        return new ParameterException(command(spec).commandLine(), message);
    }

    private static CommandSpec command(@Nullable CommandSpec spec) {
        if (spec == null) {
            throw new IllegalStateException("picocli sets the command");
        }
        return spec;
    }
}

package millrace.streams.cli;

import java.io.PrintWriter;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.Callable;
import millrace.streams.ServiceConfig;
import millrace.streams.drill.DrillLoad;
import millrace.streams.drill.DrillReport;
import millrace.streams.drill.DrillSettings;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Load and proof for a fault drill on a cluster of one's own; the fault is the operator's.
@Command(
        name = "drill",
        mixinStandardHelpOptions = true,
        description = "Sends numbered prompts at a steady rate while you break something, and then says whether each was answered "
                + "once, how long a partition stood still, and who answered.",
        footer = {
            "",
            "Examples:",
            "  millrace drill --rate 5 --for 300",
            "    and meanwhile: kill -9 an instance, stop a broker",
            "  millrace drill --rate 20 --for 60 --poison-every 10 --json",
            "",
            "docs/operations.md lists faults that are worth a drill. Afterwards: millrace audit verify.",
            "Exit codes: 0 everything came out once, 1 something was lost or doubled, 2 wrong usage."
        })
final class DrillCommand implements Callable<Integer> {
    @Option(names = "--rate", paramLabel = "N", description = "Prompts per second (default: ${DEFAULT-VALUE}).")
    double rate = 2;

    @Option(names = "--for", paramLabel = "SECONDS", description = "How long prompts are sent (default: ${DEFAULT-VALUE}).")
    int seconds = 60;

    @Option(names = "--max-tokens", paramLabel = "N", description = "The most tokens of an answer (default: ${DEFAULT-VALUE}).")
    int maxTokens = 16;

    @Option(names = "--poison-every", paramLabel = "N", description = "Every N-th record is no prompt and must become a dead letter (default: none).")
    int poisonEvery;

    @Option(names = "--sessions", paramLabel = "N", description = "Prompts are turns of so many conversations (default: none).")
    int sessions;

    @Option(names = "--patience", paramLabel = "SECONDS", description = "How long to wait for the last answers (default: ${DEFAULT-VALUE}).")
    int patience = 120;

    @Option(names = "--json", description = "The report as one line of JSON.")
    boolean json;

    @Mixin
    ClientOptions client = new ClientOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    DrillCommand() {}

    @Override
    public Integer call() throws InterruptedException {
        if (!(rate > 0 && rate <= 10_000) || seconds < 1 || maxTokens < 1 || poisonEvery < 0 || sessions < 0 || patience < 1) {
            throw new ParameterException(spec.commandLine(), "--rate, --for, --max-tokens, --poison-every, --sessions, --patience: expected "
                    + "numbers above 0 and a rate of at most 10000, got " + rate + ", " + seconds + ", " + maxTokens + ", " + poisonEvery
                    + ", " + sessions + ", " + patience);
        }
        PrintWriter err = spec.commandLine().getErr();
        ServiceConfig config = client.load();
        String run = "drill-" + Long.toString(System.currentTimeMillis(), 36);
        try (DrillLoad load = DrillLoad.start(config, new DrillSettings(run, rate, maxTokens, poisonEvery, sessions))) {
            for (int second = 1; second <= seconds; second++) {
                Thread.sleep(1_000);
                if (second % 5 == 0) {
                    err.printf(Locale.ROOT, "%d s: %d sent, %d answered%n", second, load.sent(), load.answered());
                    err.flush();
                }
            }
            DrillReport report = load.finish(Duration.ofSeconds(patience));
            spec.commandLine().getOut().print(json ? report.json() + "\n" : report.text());
            spec.commandLine().getOut().flush();
            return report.isWell() ? 0 : 1;
        }
    }
}

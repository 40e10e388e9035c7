package millrace.streams.cli;

import java.util.concurrent.Callable;
import millrace.streams.bench.Pace;
import millrace.streams.bench.ScaleBench;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// Several instances against one.
@Command(name = "scale", mixinStandardHelpOptions = true,
        description = {
            "Several instances of one application id against one alone: what they answer together, over as many times what one does.",
            "Each has an engine of a fixed rate that costs no processor time. Instances, broker and client share this process, so that the "
                    + "ratio also falls where this machine is too small for their work."
        },
        footer = {
            "",
            "Examples:",
            "  millrace bench scale",
            "  millrace bench scale --instances 3 --rounds 7 --json",
            "  millrace bench scale --instances 2 --step 10 --batch 64 --prompts 960",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchScaleCommand implements Callable<Integer> {
    private static final String PARTITIONS = "topics.partitions";

    @Mixin
    PacedOptions options = new PacedOptions();

    @Option(names = "--instances", paramLabel = "N", description = "Instances; each has four partitions (default: ${DEFAULT-VALUE}).")
    int instances = 3;

    @Option(names = "--prompts", paramLabel = "N",
            description = "Prompts for each instance in each round, a multiple of 4 (default: ${DEFAULT-VALUE}).")
    int prompts = 480;

    @Override
    public Integer call() throws InterruptedException {
        Pace pace = options.pace();
        options.within("--instances", instances, 2, 16);
        options.within("--prompts", prompts, 4, 100_000);
        if (prompts % 4 != 0) {
            throw options.wrong("--prompts: expected a multiple of 4, one for each partition of an instance, got \"" + prompts + "\"");
        }
        if (options.overrides.containsKey(PARTITIONS)) {
            throw options.wrong("-D " + PARTITIONS + ": expected none, since each instance has four, got \""
                    + options.overrides.get(PARTITIONS) + "\"; set --instances");
        }
        var settings = new ScaleBench.Settings(pace, instances, prompts, options.rounds());
        return options.run(() -> new ScaleBench(settings, options.progress()).run(options.overrides));
    }
}

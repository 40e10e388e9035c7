package millrace.streams.cli;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.engine.KernelBench;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.KernelsBench;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/// Products and attention, kernel by kernel.
@Command(name = "kernels", mixinStandardHelpOptions = true,
        description = "Every kernel in every weight and KV format, on memory beyond the caches: bytes per second, their "
                + "share of a plain read loop, and the ratio to BF16.")
final class BenchKernelsCommand implements Callable<Integer> {
    @Mixin
    BenchOptions options = new BenchOptions();

    @Option(names = "--backends", paramLabel = "NAME", split = ",",
            description = "native, vector, scalar; default: what there is but scalar.")
    @Nullable List<String> backends;

    @Override
    public Integer call() {
        if (backends != null) {
            options.names("--backends", backends, List.of("auto", "native", "vector", "scalar"));
        }
        return options.run((limits, progress) -> measure(options, options.backends(backends, limits), progress));
    }

    static List<BenchResult> measure(BenchOptions options, List<String> backends, Consumer<String> progress) {
        return new KernelsBench(
                        backends,
                        options.threads,
                        options.quick ? KernelBench.Size.QUICK : KernelBench.Size.FULL,
                        options.rounds(),
                        options.quick ? 0.05 : 0.25,
                        progress)
                .run();
    }
}

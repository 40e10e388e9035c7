package millrace.streams.cli;

import java.util.List;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.engine.CudaConfig;
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
                + "share of a plain read loop, and the ratio to BF16.",
        footer = {
            "",
            "Examples:",
            "  millrace bench kernels --backends native,vector --rounds 5",
            "  millrace bench kernels --backends cuda --json",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchKernelsCommand implements Callable<Integer> {
    @Mixin
    BenchOptions options = new BenchOptions();

    @Mixin
    BenchDevice device = new BenchDevice();

    @Option(names = "--backends", paramLabel = "NAME", split = ",",
            description = "cuda, native, vector, scalar; default: the processor's but scalar.")
    @Nullable List<String> backends;

    @Override
    public Integer call() {
        if (backends != null) {
            options.names("--backends", backends, BenchOptions.BACKENDS);
        }
        CudaConfig cuda = device.cuda(options);
        return options.run((limits, progress) -> measure(options, options.backends(backends, limits), cuda, progress));
    }

    static List<BenchResult> measure(
            BenchOptions options, List<String> backends, CudaConfig cuda, Consumer<String> progress) {
        return new KernelsBench(
                        backends,
                        cuda,
                        options.threads,
                        size(options, backends),
                        options.rounds(),
                        options.quick ? 0.05 : 0.25,
                        progress)
                .run();
    }

    private static KernelBench.Size size(BenchOptions options, List<String> backends) {
        if (options.quick) {
            return KernelBench.Size.QUICK;
        }
        return backends.stream().allMatch("cuda"::equals) ? KernelBench.Size.DEVICE : KernelBench.Size.FULL;
    }
}

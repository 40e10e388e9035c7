package millrace.streams.cli;

import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// Measurements, with their spread.
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        description = "Measures the service and the engine on this machine; docs/benchmarks.md explains how to read it.",
        subcommands = {
            BenchAllCommand.class,
            BenchMachineCommand.class,
            BenchKernelsCommand.class,
            BenchEngineCommand.class,
            BenchIntegrityCommand.class,
            BenchServeCommand.class,
            BenchServiceCommand.class,
            BenchLatencyCommand.class,
            BenchScaleCommand.class,
            BenchPreviewCommand.class,
            BenchThroughputCommand.class,
            BenchDecodeCommand.class,
            BenchRecoveryCommand.class
        },
        footer = {
            "",
            "Examples:",
            "  millrace bench all --quick",
            "  millrace bench kernels --json",
            "  millrace bench engine --model random:llama:1b --weights bf16,packed --batch 1,8",
            "  millrace bench engine --model random:kimi_k2:1b --kv bf16,int8 --context 64,4096",
            "  millrace bench integrity --json",
            "  millrace bench serve --charts charts",
            "  millrace bench service --rate 200 --burst 50000",
            "  millrace bench latency --load 70 --json",
            "  millrace bench scale --instances 3 --json"
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
}

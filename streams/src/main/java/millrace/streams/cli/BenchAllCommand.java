package millrace.streams.cli;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.engine.CudaConfig;
import millrace.engine.ModelInspection;
import millrace.streams.bench.BenchResult;
import millrace.streams.bench.EngineBench.Variant;
import millrace.streams.bench.MachineBench;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/// Everything that docs/benchmarks.md shows.
@Command(name = "all", mixinStandardHelpOptions = true,
        description = "Kernels, whole models, their checks and the service in one run: about fifteen minutes and 12 GB of memory, with "
                + "--quick two minutes.",
        footer = {
            "",
            "Example, as the figures of the documentation are made:",
            "  millrace bench all --charts docs/benchmarks --write docs/benchmarks.md",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class BenchAllCommand implements Callable<Integer> {
    private static final List<String> SPARSE = List.of("glm4_moe", "kimi_k2");

    @Mixin
    BenchOptions options = new BenchOptions();

    @Override
    public Integer call() {
        return options.run(this::measure);
    }

    private List<BenchResult> measure(MachineBench.Limits limits, Consumer<String> progress) {
        List<String> backends = options.backends(null, limits);
        List<BenchResult> all = new ArrayList<>(BenchKernelsCommand.measure(options, backends, CudaConfig.SYSTEM, progress));
        all.addAll(dense(backends, progress));
        all.addAll(contexts(backends.getFirst(), progress));
        for (String architecture : SPARSE) {
            all.addAll(sparse(architecture, backends.getFirst(), progress));
        }
        all.addAll(BenchIntegrityCommand.measure(options, progress));
        all.addAll(BenchServeCommand.measure(options, "glm-tiny", List.of(25, 50, 75, 90), Map.of(), progress));
        return all;
    }

    /// The model of the comparisons, in every weight format.
    private List<BenchResult> dense(List<String> backends, Consumer<String> progress) {
        List<Variant> variants = new ArrayList<>();
        for (String format : List.of("bf16", "packed", "int8", "int4")) {
            variants.add(new Variant(backends.getFirst(), format, "auto", List.of()));
        }
        backends.stream().skip(1).forEach(other -> variants.add(new Variant(other, "bf16", "auto", List.of(1))));
        List<Integer> batches = options.quick ? List.of(1, 8, 32) : List.of(1, 2, 4, 8, 16, 32);
        return engine("llama", options.quick ? "100m" : "1b", variants, batches, List.of(64), 512, progress);
    }

    /// Every KV format of the model, short and long, where attention weighs much.
    private List<BenchResult> contexts(String backend, Consumer<String> progress) {
        try (BenchModel model = BenchModel.of("random:llama:" + (options.quick ? "30m" : "100m"), null, progress)) {
            List<Variant> variants = ModelInspection.of(model.directory(), null).kv().stream()
                    .map(ModelInspection.KvCost::format)
                    .filter(format -> !format.equals("f32"))
                    .map(format -> new Variant(backend, "bf16", format, List.of()))
                    .toList();
            List<Integer> lengths = options.quick ? List.of(64, 1024) : List.of(64, 1024, 4096);
            return BenchEngineCommand.measure(options, model, variants, List.of(1), lengths, 0, CudaConfig.SYSTEM, false, null, progress);
        }
    }

    private List<BenchResult> sparse(String architecture, String backend, Consumer<String> progress) {
        List<Variant> variants = new ArrayList<>();
        for (String format : List.of("bf16", "packed", "int8")) {
            variants.add(new Variant(backend, format, "auto", List.of()));
        }
        return engine(architecture, options.quick ? "100m" : "1b", variants, List.of(1, 8), List.of(64), 256, progress);
    }

    private List<BenchResult> engine(
            String architecture, String size, List<Variant> variants, List<Integer> batches, List<Integer> contexts,
            int prefill, Consumer<String> progress) {
        try (BenchModel model = BenchModel.of("random:" + architecture + ":" + size, null, progress)) {
            return BenchEngineCommand.measure(options, model, variants, batches, contexts, prefill, CudaConfig.SYSTEM, false, null, progress);
        }
    }
}

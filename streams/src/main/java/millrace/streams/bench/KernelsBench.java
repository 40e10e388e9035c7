package millrace.streams.bench;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import millrace.engine.Bandwidth;
import millrace.engine.CudaConfig;
import millrace.engine.KernelBench;
import millrace.engine.KernelBench.Case;

/// Every kernel in every format, against a read loop and against BF16 in the same round.
public final class KernelsBench {
    private static final int WARM_PASSES = 40;
    /// What takes as long is measured once.
    private static final double SLOW_SECONDS = 1;

    private final List<String> backends;
    private final CudaConfig cuda;
    private final int threads;
    private final KernelBench.Size size;
    private final int rounds;
    private final double warmSeconds;
    private final Consumer<String> progress;

    /// @param cuda the device of the backend `cuda`
    /// @param threads 0 takes one per processor
    /// @param warmSeconds that each case runs before it is measured
    public KernelsBench(
            List<String> backends, CudaConfig cuda, int threads, KernelBench.Size size, int rounds, double warmSeconds,
            Consumer<String> progress) {
        this.cuda = cuda;
        this.backends = List.copyOf(backends);
        this.threads = threads == 0 ? Runtime.getRuntime().availableProcessors() : threads;
        this.size = size;
        this.rounds = rounds;
        this.warmSeconds = warmSeconds;
        this.progress = progress;
    }

    public List<BenchResult> run() {
        progress.accept("kernels: packing matrices and filling caches");
        try (KernelBench kernels = new KernelBench(backends, threads, size, cuda);
                Bandwidth memory = MachineBench.bandwidth(backends, threads, cuda, MachineBench.READ_BYTES / 2)) {
            List<Case> cases = kernels.cases();
            progress.accept("kernels: warming up " + cases.size() + " cases");
            boolean[] slow = new boolean[cases.size()];
            for (int i = 0; i < cases.size(); i++) {
                slow[i] = warm(kernels, i) > SLOW_SECONDS && kernels.seconds(i) > SLOW_SECONDS;
                memory.bytesPerSecond();
            }
            List<BenchResult> results = cases.stream().map(this::result).toList();
            for (int round = 0; round < rounds; round++) {
                progress.accept("kernels: round " + (round + 1) + " of " + rounds);
                measure(kernels, memory, cases, results, round, slow);
            }
            return results;
        }
    }

    /// Returns what the last pass took.
    private double warm(KernelBench kernels, int index) {
        double spent = 0;
        double last = 0;
        for (int pass = 0; pass < WARM_PASSES && spent < warmSeconds; pass++) {
            last = kernels.seconds(index);
            spent += last;
        }
        return last;
    }

    private BenchResult result(Case one) {
        return new BenchResult(one.bench(), one.backend(), one.format(), one.batch(), threads).label("shape", one.shape());
    }

    /// The cases of one kind stand together, so that what is compared is measured within a moment; the read loop stands
    /// before and after each kind.
    private static void measure(
            KernelBench kernels, Bandwidth memory, List<Case> cases, List<BenchResult> results, int round, boolean[] slow) {
        Map<String, List<Integer>> kinds = new LinkedHashMap<>();
        for (int i = 0; i < cases.size(); i++) {
            if (round > 0 && slow[i]) {
                continue;
            }
            kinds.computeIfAbsent(kind(cases.get(i)), key -> new ArrayList<>()).add(i);
        }
        double[] seconds = new double[cases.size()];
        double before = memory.bytesPerSecond();
        for (List<Integer> kind : kinds.values()) {
            Collections.rotate(kind, round); // nobody is always first
            kind.forEach(i -> seconds[i] = kernels.seconds(i));
            double after = memory.bytesPerSecond();
            double bandwidth = (before + after) / 2;
            kind.forEach(i -> note(cases, seconds, i, kind, bandwidth, results.get(i)));
            before = after;
        }
    }

    private static String kind(Case one) {
        return one.bench().replace(KernelBench.APART, "") + one.batch() + one.shape();
    }

    private static void note(
            List<Case> cases, double[] seconds, int index, List<Integer> kind, double bandwidth, BenchResult result) {
        Case one = cases.get(index);
        double bytesPerSecond = one.bytes() / seconds[index];
        double tokensPerSecond = one.tokens() / seconds[index];
        result.sample("tokens_per_second", tokensPerSecond);
        result.sample("gb_per_second", bytesPerSecond / 1e9);
        boolean alone = cases.stream().allMatch(any -> any.backend().equals("cuda"));
        if (alone || !one.backend().equals("cuda")) {
            // Where backends are mixed it is of the processor's memory, and the device's operands do not lie there.
            result.sample("share_of_bandwidth", bytesPerSecond / bandwidth);
        }
        for (int other : kind) {
            Case reference = cases.get(other);
            double ratio = tokensPerSecond / (reference.tokens() / seconds[other]);
            if (reference.bench().equals(one.bench() + KernelBench.APART) && reference.backend().equals(one.backend())
                    && reference.format().equals(one.format())) {
                result.sample("ratio_to_apart", ratio);
            }
            if (!reference.bench().equals(one.bench())) {
                continue;
            }
            if (reference.backend().equals(one.backend()) && reference.format().equals("bf16")) {
                result.sample("ratio_to_bf16", ratio);
            }
            if (reference.backend().equals("native") && !one.backend().equals("native")
                    && reference.format().equals(one.format())) {
                result.sample("ratio_to_native", ratio);
            }
        }
        result.sample("gflops", one.flops() / seconds[index] / 1e9);
    }
}

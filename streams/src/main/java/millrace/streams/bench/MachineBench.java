package millrace.streams.bench;

import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Consumer;
import millrace.engine.Bandwidth;
import millrace.engine.CudaConfig;
import millrace.engine.FlopRate;
import millrace.engine.Machine;
import millrace.engine.ReadBandwidth;

/// The limits of this machine: how fast a plain loop reads memory, and how fast one multiplies and adds.
public final class MachineBench {
    /// @param readBytesPerSecond by number of threads
    /// @param flopsPerSecond by number of threads
    /// @param loadAverage of the last minute before the measurement, negative if unknown: above 0.5 it is in doubt
    public record Limits(
            Machine machine, int threads, Map<Integer, Samples> readBytesPerSecond, Map<Integer, Samples> flopsPerSecond,
            double loadAverage) {

        /// Of a machine whose loops say nothing about what is measured: its facts and its load before.
        public static Limits unmeasured() {
            return new Limits(Machine.probe(), Runtime.getRuntime().availableProcessors(), Map.of(), Map.of(), load());
        }

        private static double load() {
            return ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
        }

        /// Of all threads.
        public double readBytes() {
            return limit(readBytesPerSecond);
        }

        /// Of all threads.
        public double flops() {
            return limit(flopsPerSecond);
        }

        private double limit(Map<Integer, Samples> rates) {
            Samples samples = rates.get(threads);
            if (samples == null) {
                throw new IllegalStateException("no rate of " + threads + " threads");
            }
            return samples.median();
        }
    }

    /// What a loop reads each time: beyond every cache, and little enough to be repeated.
    static final long READ_BYTES = 1L << 30;

    private static final double FLOP_SECONDS = 0.05;
    private static final int WARM_UPS = 6;

    private final int threads;
    private final int rounds;
    private final Consumer<String> progress;

    /// @param threads 0 takes one per processor
    public MachineBench(int threads, int rounds, Consumer<String> progress) {
        this.threads = threads == 0 ? Runtime.getRuntime().availableProcessors() : threads;
        this.rounds = rounds;
        this.progress = progress;
    }

    public Limits run() {
        double load = Limits.load();
        progress.accept("machine: read loop and multiply-add loop, " + rounds + " rounds");
        Map<Integer, Samples> reads = new TreeMap<>();
        Map<Integer, Samples> flops = new TreeMap<>();
        for (int team : new TreeSet<>(Arrays.asList(1, threads))) {
            try (ReadBandwidth memory = new ReadBandwidth(team, READ_BYTES); FlopRate arithmetic = new FlopRate(team)) {
                for (int round = -WARM_UPS; round < rounds; round++) {
                    double bytesPerSecond = memory.bytesPerSecond();
                    double flopsPerSecond = arithmetic.flopsPerSecond(FLOP_SECONDS);
                    if (round >= 0) {
                        samples(reads, team).add(bytesPerSecond);
                        samples(flops, team).add(flopsPerSecond);
                    }
                }
            }
        }
        return new Limits(Machine.probe(), threads, reads, flops, load);
    }

    private static Samples samples(Map<Integer, Samples> rates, int team) {
        return rates.computeIfAbsent(team, key -> new Samples());
    }

    /// What figures of these backends are compared with: the device's memory if all are on it, else the machine's.
    static Bandwidth bandwidth(List<String> backends, int threads, CudaConfig cuda, long bytes) {
        return backends.stream().allMatch("cuda"::equals)
                ? Bandwidth.ofDevice(cuda)
                : Bandwidth.ofMemory(threads, bytes);
    }
}

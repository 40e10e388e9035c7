package millrace.engine.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Locale;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.cpu.ThreadTeam;
import millrace.engine.kernel.vector.ReadLoop;

/// Matrix products over BF16 weights far larger than any cache, beside a loop that only reads the same bytes.
///
/// ```
/// java --add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED \
///      -cp … millrace.engine.bench.ProjectionBenchmark [threads] [MiB of weights] [rounds]
/// ```
///
/// Prints, per batch size, the median and quartiles of the bandwidth of weights, and its share of the read loop of the
/// same round.
public final class ProjectionBenchmark {
    private static final int COLS = 2048;
    private static final int[] BATCHES = {1, 2, 3, 4, 8, 16, 64};

    private ProjectionBenchmark() {}

    public static void main(String[] args) {
        int threads = args.length > 0 ? Integer.parseInt(args[0]) : 2;
        int mebibytes = args.length > 1 ? Integer.parseInt(args[1]) : 1024;
        int rounds = args.length > 2 ? Integer.parseInt(args[2]) : 9;
        int matrices = 8;
        int rows = (int) ((long) mebibytes * (1 << 20) / matrices / (2 * COLS)) / 64 * 64;
        try (Arena arena = Arena.ofShared();
                Backend backend = Backend.open("auto", threads);
                ThreadTeam readers = new ThreadTeam(threads)) {
            Matrix[] weights = new Matrix[matrices];
            for (int i = 0; i < matrices; i++) {
                weights[i] = random(arena, rows, i);
            }
            int most = BATCHES[BATCHES.length - 1];
            Rows x = Rows.allocate(most, COLS);
            for (int i = 0; i < x.values().length; i++) {
                x.values()[i] = (i * 7919 % 1000 - 500) / 500f;
            }
            Rows y = Rows.allocate(most, rows);
            long bytes = matrices * weights[0].data().byteSize();
            System.out.printf(
                    Locale.ROOT, "%s; %d threads, %d MiB of weights%n", backend.reason(), threads, bytes >> 20);
            for (int batch : BATCHES) {
                report(backend.kernels(), readers, weights, x, y, batch, bytes, rounds);
            }
        }
    }

    private static void report(
            Kernels kernels, ThreadTeam readers, Matrix[] weights, Rows x, Rows y, int batch, long bytes, int rounds) {
        double[] rates = new double[rounds];
        double[] shares = new double[rounds];
        var projections = new Projections(1);
        for (int round = -2; round < rounds; round++) {
            long start = System.nanoTime();
            for (Matrix w : weights) {
                ReadLoop.run(readers, w.data().address(), w.data().byteSize());
            }
            long read = System.nanoTime() - start;
            start = System.nanoTime();
            for (Matrix w : weights) {
                kernels.project(projections.clear().add(y, w, null, x, batch));
            }
            long time = System.nanoTime() - start;
            if (round >= 0) {
                rates[round] = (double) bytes / time;
                shares[round] = (double) read / time;
            }
        }
        Arrays.sort(rates);
        Arrays.sort(shares);
        System.out.printf(
                Locale.ROOT,
                "batch %2d: %5.1f GB/s (%.1f to %.1f), %3.0f %% of the read loop (%.0f to %.0f), %6.1f GFLOP/s%n",
                batch,
                rates[rounds / 2],
                rates[rounds / 4],
                rates[rounds * 3 / 4],
                100 * shares[rounds / 2],
                100 * shares[rounds / 4],
                100 * shares[rounds * 3 / 4],
                rates[rounds / 2] * batch);
    }

    private static Matrix random(Arena arena, int rows, int seed) {
        Matrix w = Matrix.allocate(arena, WeightFormat.BF16, rows, COLS);
        MemorySegment data = w.data();
        for (long i = 0; i < data.byteSize(); i += 4) {
            // Normal numbers around 0.01 of both signs: denormals would measure the processor's slow path.
            int bits = (int) ((i + seed) * 0x9E3779B1L >>> 7);
            data.set(ValueLayout.JAVA_INT, i, bits & 0x80FF_80FF | 0x3C00_3C00);
        }
        return w;
    }
}

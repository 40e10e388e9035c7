package millrace.engine.kernel.vector;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.lang.foreign.Arena;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.LoopsCases;
import millrace.engine.kernel.cpu.LoopsCases.Fill;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Vector loops give the bits of the scalar ones.
final class VectorLoopsTest {
    private static final long SEED = 20261130;

    @ParameterizedTest
    @EnumSource
    void bitsShouldBeThoseOfTheSpecification(Fill fill) {
        Map<String, float[]> expected = LoopsCases.run(new ScalarLoops(), fill, SEED);
        Map<String, float[]> actual = LoopsCases.run(new VectorLoops(), fill, SEED);
        assertThat(actual.keySet()).containsExactlyElementsOf(expected.keySet());
        expected.forEach((name, bits) ->
                assertThat(bits(actual.get(name))).as("%s, %s, seed %d", name, fill, SEED).isEqualTo(bits(bits)));
    }

    @Test
    void compiledLoopsShouldGiveTheBitsOfInterpretedOnes() {
        long first = LoopsCases.digest(LoopsCases.run(new VectorLoops(), Fill.USUAL, SEED));
        for (int i = 0; i < 40; i++) {
            assertThat(LoopsCases.digest(LoopsCases.run(new VectorLoops(), Fill.USUAL, SEED)))
                    .as("round %d, seed %d", i, SEED)
                    .isEqualTo(first);
        }
    }

    /// What the compiler does not turn into vectors is slower than plain loops; the best of many short runs tells it
    /// even on a crowded machine.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4, 16})
    void projectionShouldBeMuchFasterThanTheSpecification(int rows) {
        int cols = 512;
        try (Arena arena = Arena.ofConfined()) {
            for (TileFormat format : new TileFormat[] {TileFormat.BF16, TileFormat.F32}) {
                Matrix w = Matrix.allocate(arena, format, 64, cols);
                float[] x = new float[rows * cols];
                float[] tile = new float[Loops.tileRows(rows) * Loops.TILE];
                long scalar = best(new ScalarLoops(), w, x, rows, tile, 10);
                long vector = best(new VectorLoops(), w, x, rows, tile, 3_000);
                assertThat(vector).as("ns, %s, scalar takes %d", format, scalar).isLessThan(scalar / 4);
            }
        }
    }

    private static long best(Loops loops, Matrix w, float[] x, int rows, float[] tile, int rounds) {
        long best = Long.MAX_VALUE;
        for (int i = 0; i < rounds; i++) {
            long start = System.nanoTime();
            loops.project(w, 0, 4, x, 0, w.cols(), rows, tile);
            best = Math.min(best, System.nanoTime() - start);
        }
        return best;
    }

    @ParameterizedTest
    @ValueSource(ints = {128, 256})
    void narrowerMachinesShouldGiveTheSameBits(int bits) throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process process = new ProcessBuilder(
                        java,
                        "--add-modules",
                        "jdk.incubator.vector",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Dmillrace.vector.bits=" + bits,
                        "-cp",
                        home(Narrow.class) + File.pathSeparator + home(VectorLoops.class),
                        Narrow.class.getName())
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).isZero();
        long expected = LoopsCases.digest(LoopsCases.run(new ScalarLoops(), Fill.ANY, SEED));
        assertThat(printed.strip()).isEqualTo(bits + " " + expected);
    }

    /// Where a class was loaded from: runners of tests do not all put it on the class path of the system.
    private static String home(Class<?> type) {
        try {
            return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    /// Run in a JVM of its own: the width of vectors is fixed when a JVM starts.
    static final class Narrow {
        private Narrow() {}

        public static void main(String[] args) {
            long digest = LoopsCases.digest(LoopsCases.run(new VectorLoops(), Fill.ANY, SEED));
            System.out.println(VectorLoops.bits() + " " + digest);
        }
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < values.length; i++) {
            bits[i] = Float.floatToIntBits(values[i]);
        }
        return bits;
    }
}

package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.scalar.ScalarLoops;
import millrace.engine.kernel.vector.VectorLoops;
import org.junit.jupiter.api.Test;

class WarmingLoopsTest {
    private static final int ROWS = 64;
    private static final int COLS = 97;

    @Test
    void givesTheSameBitsBeforeAndAfterTheChange() throws InterruptedException {
        SplittableRandom random = new SplittableRandom(11);
        try (Arena arena = Arena.ofConfined();
                WarmingLoops loops = new WarmingLoops(new ScalarLoops(), new VectorLoops())) {
            Matrix w = matrix(arena, random);
            float[] x = new float[3 * COLS];
            for (int i = 0; i < x.length; i++) {
                x[i] = (float) random.nextDouble(-2, 2);
            }
            float[] expected = new float[Loops.tileRows(3) * Loops.TILE];
            new ScalarLoops().project(w, 0, 4, x, 0, COLS, 3, expected);
            boolean[] seen = new boolean[2];
            long until = System.nanoTime() + 60_000_000_000L;
            while (!(seen[0] && seen[1]) && System.nanoTime() < until) {
                boolean warm = loops.isWarm();
                float[] got = new float[expected.length];
                loops.project(w, 0, 4, x, 0, COLS, 3, got);
                for (int i = 0; i < 3 * Loops.TILE; i++) {
                    assertThat(Float.floatToRawIntBits(got[i])).as("output %d, warm %s, seed 11", i, warm)
                            .isEqualTo(Float.floatToRawIntBits(expected[i]));
                }
                seen[warm ? 1 : 0] = true;
                Thread.sleep(5);
            }
            assertThat(seen[1]).as("changed to the vector loops within a minute").isTrue();
        }
    }

    @Test
    void staysUsableWhenClosedBeforeItIsWarm() {
        try (Arena arena = Arena.ofConfined()) {
            WarmingLoops loops = new WarmingLoops(new ScalarLoops(), new VectorLoops());
            loops.close();
            Matrix w = matrix(arena, new SplittableRandom(3));
            float[] ones = new float[COLS];
            java.util.Arrays.fill(ones, 1f);
            float[] got = new float[Loops.tileRows(1) * Loops.TILE];
            float[] expected = new float[got.length];
            loops.project(w, 0, 4, ones, 0, COLS, 1, got);
            new ScalarLoops().project(w, 0, 4, ones, 0, COLS, 1, expected);
            assertThat(java.util.Arrays.copyOf(got, Loops.TILE)).isEqualTo(java.util.Arrays.copyOf(expected, Loops.TILE));
        }
    }

    private static Matrix matrix(Arena arena, SplittableRandom random) {
        java.lang.foreign.MemorySegment data = arena.allocate(4L * ROWS * COLS);
        for (int i = 0; i < ROWS * COLS; i++) {
            data.set(java.lang.foreign.ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * i, (float) random.nextDouble(-1, 1));
        }
        Matrix.Source source = Matrix.Source.rowMajor(DType.F32, data, ROWS, COLS);
        Matrix matrix = Matrix.allocate(arena, source.format(), ROWS, COLS);
        for (int panel = 0; panel < matrix.panels(); panel++) {
            matrix.fill(source, panel);
        }
        return matrix;
    }
}

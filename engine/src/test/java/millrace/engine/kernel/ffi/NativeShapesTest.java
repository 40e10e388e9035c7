package millrace.engine.kernel.ffi;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.format.BFloat16;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Native products have a form for each number of panels and rows: all give the bits of the specification, whatever
/// stands beside the input, and whatever the number of columns leaves of a word, a line, a group or a block.
final class NativeShapesTest {
    private static final long SEED = 20261130;
    private static final int[] COLS = {1, 3, 7, 8, 31, 32, 33, 63, 64, 65, 80, 96, 100, 127, 128, 129, 160, 257, 300};
    private static final int MOST_ROWS = 19;

    private final SplittableRandom random = new SplittableRandom(SEED);

    @ParameterizedTest
    @EnumSource
    void everyShapeShouldGiveTheBitsOfTheSpecification(WeightFormat format) {
        NativeLoopsTest.assumeAvailable();
        Loops specification = new ScalarLoops();
        Loops tested = NativeTier.loops();
        try (Arena arena = Arena.ofConfined()) {
            for (int cols : COLS) {
                Matrix w = weights(arena, format, cols);
                int stride = cols + 3;
                float[] x = input(cols, stride);
                float[] expected = new float[Loops.tileRows(MOST_ROWS) * Loops.TILE];
                specification.project(w, 0, Loops.PANELS, x, 2, stride, MOST_ROWS, expected);
                for (int rows = 1; rows <= MOST_ROWS; rows++) {
                    for (int panels = 1; panels <= Loops.PANELS; panels++) {
                        float[] out = new float[Loops.tileRows(rows) * Loops.TILE];
                        tested.project(w, 0, panels, x, 2, stride, rows, out);
                        assertThat(bits(out, rows, panels))
                                .as("%s, %d columns, %d rows, %d panels, seed %d", format, cols, rows, panels, SEED)
                                .isEqualTo(bits(expected, rows, panels));
                    }
                }
            }
        }
    }

    /// Of magnitudes wide apart, so that formats of few bits have their least codes and zeros among others.
    private Matrix weights(Arena arena, WeightFormat format, int cols) {
        boolean halves = format == WeightFormat.BF16 || format == WeightFormat.PACKED;
        MemorySegment values = arena.allocate((long) Loops.TILE * cols * Float.BYTES);
        for (int i = 0; i < Loops.TILE * cols; i++) {
            float value = Math.scalb(value(), -(random.nextInt(5) * random.nextInt(6)));
            if (halves) {
                values.set(ValueLayout.JAVA_SHORT, 2L * i, BFloat16.fromFloat(value));
            } else {
                values.set(ValueLayout.JAVA_FLOAT, 4L * i, value);
            }
        }
        DType dtype = halves ? DType.BF16 : DType.F32;
        Matrix.Source source = Matrix.Source.rowMajor(dtype, values, Loops.TILE, cols);
        return Matrix.pack(arena, source, format, (n, task) -> IntStream.range(0, n).forEach(task));
    }

    /// Rows of numbers, and NaN before, between and after them.
    private float[] input(int cols, int stride) {
        float[] x = new float[2 + MOST_ROWS * stride];
        Arrays.fill(x, Float.NaN);
        for (int r = 0; r < MOST_ROWS; r++) {
            for (int k = 0; k < cols; k++) {
                x[2 + r * stride + k] = value();
            }
        }
        return x;
    }

    private float value() {
        return (float) random.nextDouble(-4, 4);
    }

    private static int[] bits(float[] tile, int rows, int panels) {
        int width = panels * Matrix.PANEL_ROWS;
        int[] bits = new int[rows * width];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(tile[i / width * Loops.TILE + i % width]);
        }
        return bits;
    }
}

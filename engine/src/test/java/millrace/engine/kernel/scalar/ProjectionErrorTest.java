package millrace.engine.kernel.scalar;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.format.Panels;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.cpu.Loops;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Products against sums in double precision, with the bounds of the contract.
final class ProjectionErrorTest {
    private static final double UNIT = 0x1p-24;

    @ParameterizedTest
    @CsvSource({
        "F32, 700", "BF16, 700", "PACKED, 700", "INT8, 700", "INT4, 700", "FP8, 700", "INT8, 31", "INT4, 33", "FP8, 129"
    })
    void errorsShouldStayBelowTheirBounds(WeightFormat format, int cols) {
        var random = new SplittableRandom(4);
        DType dtype = format == WeightFormat.BF16 || format == WeightFormat.PACKED ? DType.BF16 : DType.F32;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment data = arena.allocate(64L * cols * dtype.bytes());
            for (long i = 0; i < 64L * cols; i++) {
                float value = (float) random.nextGaussian();
                if (dtype == DType.BF16) {
                    data.set(ValueLayout.JAVA_SHORT, 2 * i, (short) (Float.floatToRawIntBits(value) >>> 16));
                } else {
                    data.set(ValueLayout.JAVA_FLOAT, 4 * i, value);
                }
            }
            Matrix.Source source = Matrix.Source.rowMajor(dtype, data, 64, cols);
            Matrix w = Matrix.pack(arena, source, format, (n, task) -> IntStream.range(0, n).forEach(task));
            float[] x = new float[cols];
            for (int k = 0; k < cols; k++) {
                x[k] = (float) random.nextGaussian();
            }
            float[] out = new float[Loops.tileRows(1) * Loops.TILE];
            new ScalarLoops().project(w, 0, 4, x, 0, cols, 1, out);
            float[] codes = new float[cols];
            int chain = format.grouped() ? format.group() + format.groups(cols) : cols;
            double gamma = chain * UNIT / (1 - chain * UNIT);
            for (int row = 0; row < 64; row++) {
                int panel = row / 16;
                Panels.codes(w.panelFormat(panel), w.data(), w.panelOffset(panel), cols, row % 16, codes, 0);
                double sum = 0;
                double magnitude = 0;
                for (int k = 0; k < cols; k++) {
                    int group = format.grouped() ? k / format.group() : 0;
                    double scale = Panels.scale(w.panelFormat(panel), w.data(), w.panelOffset(panel), row % 16, group);
                    double product = codes[k] * scale * x[k];
                    sum += product;
                    magnitude += Math.abs(product);
                }
                assertThat(Math.abs(out[row] - sum)).as("row %d, seed 4", row).isLessThanOrEqualTo(gamma * magnitude);
            }
        }
    }
}

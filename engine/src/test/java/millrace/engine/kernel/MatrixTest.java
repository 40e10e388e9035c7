package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.provider.CsvSource;

final class MatrixTest {
    @ParameterizedTest
    @CsvSource({"BF16, 1, 1", "BF16, 17, 33", "BF16, 32, 8", "F32, 5, 7", "F32, 48, 16", "F16, 31, 2"})
    void rowsShouldComeBackAsTheyWere(DType dtype, int rows, int cols) {
        try (Arena arena = Arena.ofConfined()) {
            // One byte off: tensors in files are not always aligned.
            MemorySegment data = arena.allocate((long) rows * cols * dtype.bytes() + 1).asSlice(1);
            for (int i = 0; i < rows * cols; i++) {
                float value = i % 100 - 50;
                switch (dtype) {
                    case BF16 -> data.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, BFloat16.fromFloat(value));
                    case F16 -> data.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, Float.floatToFloat16(value));
                    default -> data.set(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * i, value);
                }
            }
            Matrix plain = packed(arena, Matrix.Source.rowMajor(dtype, data, rows, cols));
            Matrix turned = packed(arena, new Matrix.Source(dtype, data, cols, rows, 0, 1, cols));
            float[] row = new float[cols + 1];
            float[] column = new float[rows];
            for (int r = 0; r < rows; r++) {
                plain.row(r, row, 1);
                for (int c = 0; c < cols; c++) {
                    assertThat(row[c + 1]).isEqualTo((r * cols + c) % 100 - 50);
                    turned.row(c, column, 0);
                    assertThat(column[r]).isEqualTo(row[c + 1]);
                }
            }
        }
    }

    private static Matrix packed(Arena arena, Matrix.Source source) {
        Matrix matrix = Matrix.allocate(arena, source.format(), source.rows(), source.cols());
        for (int panel = 0; panel < matrix.panels(); panel++) {
            matrix.fill(source, panel);
        }
        return matrix;
    }

    @Test
    void sourceBeyondItsDataShouldBeRefused() {
        MemorySegment data = MemorySegment.ofArray(new byte[2 * 6]);
        assertThatThrownBy(() -> Matrix.Source.rowMajor(DType.BF16, data, 2, 4))
                .hasMessage("matrix source: 2 × 4 from 0, last 7, in 12 bytes of BF16");
        assertThatThrownBy(() -> Matrix.Source.rowMajor(DType.I8, data, 2, 4))
                .hasMessage("matrix source: cannot compute with I8");
    }
}

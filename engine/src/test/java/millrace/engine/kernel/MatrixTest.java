package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import java.util.function.IntConsumer;
import millrace.engine.format.BFloat16;
import millrace.engine.format.WeightFormat;
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
        return Matrix.pack(arena, source, source.format(), MatrixTest::inOrder);
    }

    private static void inOrder(int count, IntConsumer task) {
        for (int i = 0; i < count; i++) {
            task.accept(i);
        }
    }

    @Test
    void packedRowsShouldComeBackToTheBit() {
        try (Arena arena = Arena.ofShared();
                Backend backend = Backend.open("scalar", 2)) {
            int rows = 100;
            int cols = 515;
            var random = new SplittableRandom(9);
            MemorySegment data = arena.allocate(2L * rows * cols);
            for (int i = 0; i < rows * cols; i++) {
                boolean any = i / cols / 16 == 2 || random.nextInt(200) == 0;
                float value = any ? Float.intBitsToFloat(random.nextInt()) : (float) random.nextGaussian();
                data.set(ValueLayout.JAVA_SHORT, 2L * i, BFloat16.fromFloat(value));
            }
            Matrix.Source source = Matrix.Source.rowMajor(DType.BF16, data, rows, cols);
            Matrix packed = backend.kernels().pack(source, WeightFormat.PACKED, arena);
            assertThat(packed.format()).isEqualTo(WeightFormat.PACKED);
            assertThat(packed.rawPanel(1)).isFalse();
            assertThat(packed.rawPanel(2)).as("of random bits").isTrue();
            assertThat(packed.panelFormat(2)).isEqualTo(WeightFormat.BF16);
            assertThat(packed.panelBytes(2)).isEqualTo(64L * 258);
            assertThat(packed.panelBytes(1)).isLessThan(64L * 258 * 4 / 5);
            assertThat(packed.panelAddress(6) + packed.panelBytes(6))
                    .isEqualTo(packed.data().address() + packed.data().byteSize());
            Matrix plain = backend.kernels().pack(source, arena);
            assertThat(plain.format()).isEqualTo(WeightFormat.BF16);
            float[] expected = new float[cols];
            float[] got = new float[cols];
            for (int r = 0; r < rows; r++) {
                plain.row(r, expected, 0);
                packed.row(r, got, 0);
                for (int c = 0; c < cols; c++) {
                    assertThat(Float.floatToRawIntBits(got[c])).as("row %d, column %d, seed 9", r, c)
                            .isEqualTo(Float.floatToRawIntBits(expected[c]));
                }
            }
        }
    }

    @Test
    void whatIsNotBf16ShouldNotLoseBits() {
        try (Arena arena = Arena.ofConfined()) {
            for (DType dtype : new DType[] {DType.F16, DType.F32}) {
                Matrix.Source source = Matrix.Source.rowMajor(dtype, arena.allocate(64), 2, 8);
                for (WeightFormat target : new WeightFormat[] {WeightFormat.BF16, WeightFormat.PACKED}) {
                    assertThat(Matrix.pack(arena, source, target, MatrixTest::inOrder).format())
                            .isEqualTo(WeightFormat.F32);
                }
                assertThat(Matrix.pack(arena, source, WeightFormat.INT4, MatrixTest::inOrder).format())
                        .isEqualTo(WeightFormat.INT4);
            }
        }
    }

    @Test
    void rowsOfGroupedFormatsShouldBeCodesTimesScales() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment data = arena.allocate(4L * 20 * 40);
            for (int i = 0; i < 20 * 40; i++) {
                data.set(ValueLayout.JAVA_FLOAT, 4L * i, i % 8 - 4);
            }
            Matrix.Source source = Matrix.Source.rowMajor(DType.F32, data, 20, 40);
            for (WeightFormat format : new WeightFormat[] {WeightFormat.INT4, WeightFormat.FP8}) {
                Matrix w = Matrix.pack(arena, source, format, MatrixTest::inOrder);
                float[] row = new float[40];
                w.row(19, row, 0);
                for (int c = 0; c < 40; c++) {
                    assertThat(row[c]).as(format.id()).isCloseTo(c % 8 - 4, within(format == WeightFormat.FP8 ? 0.15f : 0));
                }
            }
        }
    }

    @Test
    void panelsThatDoNotFitShouldBeRefused() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment data = arena.allocate(1024, 64);
            assertThatThrownBy(() -> Matrix.of(WeightFormat.INT8, 16, 64, data))
                    .hasMessage("matrix: 16 × 64 in INT8 needs 1088 bytes, got 1024");
            assertThatThrownBy(() -> Matrix.of(WeightFormat.PACKED, 16, 64, data))
                    .hasMessage("matrix: 16 × 64 in PACKED without offsets");
            long[] one = {0, 1024};
            assertThatThrownBy(() -> Matrix.of(WeightFormat.PACKED, 17, 64, data, one, new boolean[1]))
                    .hasMessage("matrix: 17 × 64 in PACKED, 2 offsets and 1 flags for 2 panels, 1024 bytes");
            assertThatThrownBy(() -> Matrix.of(WeightFormat.PACKED, 16, 64, data, one, new boolean[] {true}))
                    .hasMessage("matrix: panel 0 of 64 columns at 0 has 1024 bytes, raw: true");
            MemorySegment shifted = arena.allocate(1088 + 4, 64).asSlice(4, 1088);
            assertThatThrownBy(() -> Matrix.of(WeightFormat.INT8, 16, 64, shifted))
                    .hasMessage("matrix: address is not a multiple of 64");
        }
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

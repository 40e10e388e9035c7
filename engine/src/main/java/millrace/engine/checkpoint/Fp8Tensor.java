package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Float8;
import millrace.engine.format.Fp8Panel;
import millrace.engine.format.ScaleException;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.weights.StoredTensor;
import org.jspecify.annotations.Nullable;

/// FP8 e4m3fn with scales for blocks, rows or the whole tensor: a weight is `code · scale`, also where the scales are
/// called inverse.
///
/// @param codes F8_E4M3 `[rows][cols]`
/// @param scales `[⌈rows / blockRows⌉][⌈cols / blockCols⌉]` in F32, BF16 or F8_E8M0
/// @param blockCols a multiple of 128, or at least `cols`
record Fp8Tensor(StoredTensor codes, int rows, int cols, StoredTensor scales, int blockRows, int blockCols)
        implements LinearTensor {
    private static final int E8M0_NAN = 255;
    private static final int E8M0_BIAS = 127;

    @Override
    public String name() {
        return codes.name();
    }

    @Override
    public WeightFormat format() {
        return WeightFormat.FP8;
    }

    @Override
    public long storedBytes() {
        return codes.data().byteSize() + scales.data().byteSize();
    }

    @Override
    public Matrix matrix(int first, int count, @Nullable WeightFormat target, Kernels kernels, Arena arena) {
        Matrix matrix = Matrix.allocate(arena, WeightFormat.FP8, count, cols);
        return Sound.check(name(), () -> {
            kernels.forEach(matrix.panels(), panel -> fill(matrix, first, panel));
            return matrix;
        });
    }

    private void fill(Matrix matrix, int first, int panel) {
        int from = first + panel * WeightFormat.PANEL_ROWS;
        int n = Math.min(WeightFormat.PANEL_ROWS, first + matrix.rows() - from);
        int groups = WeightFormat.FP8.groups(cols);
        byte[] some = new byte[n * cols];
        float[] factors = new float[n * groups];
        MemorySegment.copy(codes.data(), ValueLayout.JAVA_BYTE, (long) from * cols, some, 0, some.length);
        for (int r = 0; r < n; r++) {
            for (int g = 0; g < groups; g++) {
                factors[r * groups + g] = scale(from + r, g * Fp8Panel.GROUP);
            }
            for (int k = 0; k < cols; k++) {
                check(from + r, k, some[r * cols + k], factors[r * groups + k / Fp8Panel.GROUP]);
            }
        }
        Fp8Panel.encode(some, factors, n, cols, matrix.data(), matrix.panelOffset(panel));
    }

    private float scale(int row, int col) {
        long across = (cols + blockCols - 1) / blockCols;
        long i = row / blockRows * across + col / blockCols;
        MemorySegment data = scales.data();
        return switch (scales.dtype()) {
            case F32 -> Words.real(data, 4 * i);
            case BF16 -> BFloat16.toFloat(Words.half(data, 2 * i));
            default -> powerOfTwo(Words.octet(data, i) & 0xFF);
        };
    }

    private static float powerOfTwo(int exponent) {
        return exponent == E8M0_NAN ? Float.NaN : Math.scalb(1f, exponent - E8M0_BIAS);
    }

    @Override
    public Matrix.Source dense(Kernels kernels, Arena arena) {
        MemorySegment all = Memory.allocate(arena, 4L * rows * cols, "dequantised weights");
        return Sound.check(name(), () -> {
            kernels.forEach(rows, row -> weights(row, all));
            return Matrix.Source.rowMajor(DType.F32, all, rows, cols);
        });
    }

    private void weights(int row, MemorySegment out) {
        for (int k = 0; k < cols; k++) {
            byte code = Words.octet(codes.data(), (long) row * cols + k);
            float scale = scale(row, k);
            check(row, k, code, scale);
            Words.real(out, 4 * ((long) row * cols + k), Float8.toFloat(code) * scale);
        }
    }

    private static void check(int row, int col, byte code, float scale) {
        if (Float8.isNaN(code)) {
            throw new IllegalArgumentException(
                    "row %d, column %d: expected a number, got the FP8 NaN 0x%02X".formatted(row, col, code));
        }
        if (!Float.isFinite(scale)) {
            throw new ScaleException(
                    "row %d, column %d: expected a finite scale, got %s".formatted(row, col, scale));
        }
    }
}

package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Int4Panel;
import millrace.engine.format.ScaleException;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import org.jspecify.annotations.Nullable;

/// Symmetric INT4 in groups of 32 columns, as compressed-tensors' `pack-quantized` stores it.
///
/// A word of `packed` holds eight columns of a row, column `j` in bits `4 (j mod 8)`, as the code plus 8; a row's last
/// word may be padded. Codes and scales are taken over as they are, never derived again.
///
/// @param packed I32 `[rows][⌈cols / 8⌉]`
/// @param scales BF16 `[rows][⌈cols / 32⌉]`
record Int4Tensor(String name, int rows, int cols, MemorySegment packed, MemorySegment scales) implements LinearTensor {
    static final int PER_WORD = 8;

    @Override
    public WeightFormat format() {
        return WeightFormat.INT4;
    }

    @Override
    public long storedBytes() {
        return packed.byteSize() + scales.byteSize();
    }

    @Override
    public Matrix matrix(int first, int count, @Nullable WeightFormat target, Kernels kernels, Arena arena) {
        Matrix matrix = Matrix.allocate(arena, WeightFormat.INT4, count, cols);
        return Sound.check(name, () -> {
            kernels.forEach(matrix.panels(), panel -> fill(matrix, first, panel));
            return matrix;
        });
    }

    private void fill(Matrix matrix, int first, int panel) {
        int from = panel * WeightFormat.PANEL_ROWS;
        int n = Math.min(WeightFormat.PANEL_ROWS, matrix.rows() - from);
        int groups = WeightFormat.INT4.groups(cols);
        byte[] codes = new byte[n * cols];
        short[] factors = new short[n * groups];
        for (int r = 0; r < n; r++) {
            codes(first + from + r, codes, r * cols);
            for (int g = 0; g < groups; g++) {
                factors[r * groups + g] = scale(first + from + r, g);
            }
        }
        Int4Panel.encode(codes, factors, n, cols, matrix.data(), matrix.panelOffset(panel));
    }

    private void codes(int row, byte[] out, int offset) {
        long words = (cols + PER_WORD - 1) / PER_WORD;
        for (int k = 0; k < cols; k++) {
            int word = Words.word(packed, 4 * (row * words + k / PER_WORD));
            out[offset + k] = (byte) ((word >>> 4 * (k % PER_WORD) & 15) - 8);
        }
    }

    private short scale(int row, int group) {
        short bits = Words.half(scales, 2 * ((long) row * WeightFormat.INT4.groups(cols) + group));
        if (!Float.isFinite(BFloat16.toFloat(bits))) {
            throw new ScaleException("row %d, group %d: expected a finite scale, got %s"
                    .formatted(row, group, BFloat16.toFloat(bits)));
        }
        return bits;
    }

    @Override
    public Matrix.Source dense(Kernels kernels, Arena arena) {
        MemorySegment all = Memory.allocate(arena, 4L * rows * cols, "dequantised weights");
        return Sound.check(name, () -> {
            kernels.forEach(rows, row -> weights(row, all));
            return Matrix.Source.rowMajor(DType.F32, all, rows, cols);
        });
    }

    private void weights(int row, MemorySegment out) {
        byte[] codes = new byte[cols];
        codes(row, codes, 0);
        for (int k = 0; k < cols; k++) {
            float weight = codes[k] * BFloat16.toFloat(scale(row, k / Int4Panel.GROUP));
            Words.real(out, 4 * ((long) row * cols + k), weight);
        }
    }
}

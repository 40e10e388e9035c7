package millrace.engine.kernel.cuda;

import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// Rows of an embedding matrix on the device: embed.cu. They have the bits of [Matrix#row].
final class CudaEmbedding {
    /// Columns of a block, one for each thread.
    private static final int COLUMNS = 256;

    private final Gpu gpu;
    private final CudaTensors tensors;
    private final @Nullable Kernel[] kernels = new Kernel[WeightFormat.values().length];

    CudaEmbedding(Gpu gpu, CudaTensors tensors) {
        this.gpu = gpu;
        this.tensors = tensors;
    }

    /// `y[t] = table[tokens[t]]`; a token that the table has not gives NaN.
    ///
    /// @param table adopted
    /// @param tokens device address of `rows` ints
    /// @param live address of an int, how many rows count; 0 for all
    void embed(Rows y, Matrix table, long tokens, int rows, long live) {
        if (y.address() == 0 || y.width() != table.cols() || rows < 0 || rows > y.capacity()) {
            throw new IllegalArgumentException("embed: %d rows of %s into %d device rows of %d"
                    .formatted(rows, table, y.address() == 0 ? 0 : y.capacity(), y.width()));
        }
        if (rows == 0) {
            return;
        }
        CudaMatrix matrix = tensors.matrix(table);
        gpu.launch(kernel(table.format()))
                .ptr(matrix.address())
                .i64(matrix.panelBytes())
                .i32(table.rows())
                .i32(table.cols())
                .i32(matrix.slices())
                .ptr(tokens)
                .ptr(y.addressAt(0))
                .i32(y.stride())
                .i32(rows)
                .ptr(live)
                .run(rows, Math.ceilDiv(table.cols(), COLUMNS), 1, COLUMNS, 0);
    }

    private Kernel kernel(WeightFormat format) {
        Kernel known = kernels[format.ordinal()];
        if (known == null) {
            known = gpu.kernel("embed_" + format.id());
            kernels[format.ordinal()] = known;
        }
        return known;
    }
}

package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.weights.StoredTensor;
import org.jspecify.annotations.Nullable;

/// One tensor of BF16, F16 or F32.
record PlainTensor(StoredTensor tensor, int rows, int cols) implements LinearTensor {
    @Override
    public String name() {
        return tensor.name();
    }

    @Override
    public WeightFormat format() {
        return source(0, rows).format();
    }

    @Override
    public long storedBytes() {
        return tensor.data().byteSize();
    }

    @Override
    public Matrix matrix(int first, int count, @Nullable WeightFormat target, Kernels kernels, Arena arena) {
        Matrix.Source source = source(first, count);
        return Sound.check(name(), () -> kernels.pack(source, target == null ? source.format() : target, arena));
    }

    @Override
    public Matrix.Source dense(Kernels kernels, Arena arena) {
        return source(0, rows);
    }

    private Matrix.Source source(int first, int count) {
        return new Matrix.Source(tensor.dtype(), tensor.data(), count, cols, (long) first * cols, cols, 1);
    }
}

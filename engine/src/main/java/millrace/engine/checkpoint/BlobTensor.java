package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.weights.StoredTensor;
import org.jspecify.annotations.Nullable;

/// A tensor in this engine's own form, see [Blob].
record BlobTensor(StoredTensor tensor, Blob blob) implements LinearTensor {
    private static final ValueLayout.OfInt WORD =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfShort HALF =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    @Override
    public String name() {
        return tensor.name();
    }

    @Override
    public int rows() {
        return blob.rows();
    }

    @Override
    public int cols() {
        return blob.cols();
    }

    @Override
    public WeightFormat format() {
        return blob.format();
    }

    @Override
    public long storedBytes() {
        return tensor.data().byteSize();
    }

    @Override
    public Matrix matrix(int first, int count, @Nullable WeightFormat target, Kernels kernels, Arena arena) {
        boolean converted = target != null && target != format() && !quantised();
        if (!converted && first == 0 && count == rows()) {
            return blob.read(tensor, kernels, arena);
        }
        try (Arena scratch = Arena.ofShared()) {
            if (quantised()) {
                return slice(blob.read(tensor, kernels, scratch), first, count, arena);
            }
            Matrix.Source all = dense(kernels, scratch);
            Matrix.Source some =
                    new Matrix.Source(all.dtype(), all.data(), count, cols(), (long) first * cols(), cols(), 1);
            return Sound.check(name(), () -> kernels.pack(some, target == null ? format() : target, arena));
        }
    }

    /// Whole panels, which is what a fused projection is cut into in every model that is quantised.
    private Matrix slice(Matrix all, int first, int count, Arena arena) {
        if (first % WeightFormat.PANEL_ROWS != 0) {
            throw Blob.refused(name(), "rows of a part: expected to begin at a multiple of 16, got " + first);
        }
        long from = all.panelOffset(first / WeightFormat.PANEL_ROWS);
        MemorySegment data =
                Memory.allocate(arena, WeightFormat.panels(count) * format().panelBytes(cols()), "the weights");
        MemorySegment.copy(all.data(), from, data, 0, data.byteSize());
        return Matrix.of(format(), count, cols(), data);
    }

    @Override
    public Matrix.Source dense(Kernels kernels, Arena arena) {
        boolean halves = format() == WeightFormat.BF16 || format() == WeightFormat.PACKED;
        MemorySegment all =
                Memory.allocate(arena, (halves ? 2L : 4L) * rows() * cols(), "decoded weights");
        try (Arena scratch = Arena.ofShared()) {
            Matrix matrix = blob.read(tensor, kernels, scratch);
            kernels.forEach(rows(), row -> {
                float[] weights = new float[cols()];
                matrix.row(row, weights, 0);
                for (int k = 0; k < cols(); k++) {
                    long i = (long) row * cols() + k;
                    if (halves) {
                        all.set(HALF, 2 * i, (short) (Float.floatToRawIntBits(weights[k]) >>> 16));
                    } else {
                        all.set(WORD, 4 * i, Float.floatToRawIntBits(weights[k]));
                    }
                }
            });
        }
        return Matrix.Source.rowMajor(halves ? DType.BF16 : DType.F32, all, rows(), cols());
    }
}

package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import millrace.engine.InvalidModelException;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Float8;
import millrace.engine.format.Fp8Panel;
import millrace.engine.format.Int4Panel;
import millrace.engine.format.Int8Panel;
import millrace.engine.format.Panels;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.weights.StoredTensor;
import millrace.engine.weights.TensorManifest;
import org.jspecify.annotations.Nullable;

/// A tensor in this engine's own form, see [Blob].
///
/// @param listed what the model's manifest says that it decodes to, or null
record BlobTensor(StoredTensor tensor, Blob blob, TensorManifest.@Nullable Decoded listed) implements LinearTensor {

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
    public Escapes escapes() {
        return blob.escapes(tensor);
    }

    @Override
    public void verify() {
        blob.checkChunks(tensor);
    }

    @Override
    public Matrix matrix(int first, int count, @Nullable WeightFormat target, Kernels kernels, Arena arena) {
        boolean converted = target != null && target != format() && !quantised();
        if (!converted && first == 0 && count == rows()) {
            return read(kernels, arena);
        }
        try (Arena scratch = Arena.ofShared()) {
            if (quantised()) {
                return slice(read(kernels, scratch), first, count, kernels, arena);
            }
            Matrix.Source all = dense(kernels, scratch);
            Matrix.Source some =
                    new Matrix.Source(all.dtype(), all.data(), count, cols(), (long) first * cols(), cols(), 1);
            return Sound.check(name(), () -> kernels.pack(some, target == null ? format() : target, arena));
        }
    }

    /// Checks every stored byte, unpacks, and checks the numbers that come out: those prove the decoder, not only the disk.
    private Matrix read(Kernels kernels, Arena arena) {
        Matrix matrix = blob.read(tensor, kernels, arena);
        if (listed != null) {
            int[] sums = listed.blocks();
            if (format() != WeightFormat.PACKED || sums.length != matrix.panels() || listed.bytes() != 2L * rows() * cols()) {
                throw new InvalidModelException("BT_FOREIGN", "%s: %s: expected %d packed numbers, got %s; sign the model again"
                        .formatted(TensorManifest.PATH, name(), listed.bytes() / 2, matrix));
            }
            kernels.forEach(sums.length, panel -> {
                int got = matrix.decodedChecksum(panel);
                if (got != sums[panel]) {
                    throw new InvalidModelException("MODEL_TENSOR_DECODED",
                            "weights: %s, rows from %d: expected numbers with the checksum %08x by %s, got %08x; start again, and replace this machine if it returns"
                                    .formatted(name(), panel * WeightFormat.PANEL_ROWS, sums[panel], TensorManifest.PATH, got));
                }
            });
        }
        return matrix;
    }

    @Override
    public TensorManifest.@Nullable Decoded decoded(Kernels kernels) {
        if (format() != WeightFormat.PACKED) {
            return null;
        }
        try (Arena scratch = Arena.ofShared()) {
            Matrix matrix = blob.read(tensor, kernels, scratch);
            int[] sums = new int[matrix.panels()];
            kernels.forEach(sums.length, panel -> sums[panel] = matrix.decodedChecksum(panel));
            return new TensorManifest.Decoded(2L * rows() * cols(), 2L * WeightFormat.PANEL_ROWS * cols(), sums);
        }
    }

    /// Rows of a grouped matrix, codes and scales as they are. A part may begin within a panel.
    private Matrix slice(Matrix all, int first, int count, Kernels kernels, Arena arena) {
        Matrix part = Matrix.allocate(arena, format(), count, cols());
        kernels.forEach(part.panels(), panel -> {
            int from = first + panel * WeightFormat.PANEL_ROWS;
            int rows = Math.min(WeightFormat.PANEL_ROWS, first + count - from);
            int groups = format().groups(cols());
            float[] codes = new float[rows * cols()];
            float[] scales = new float[rows * groups];
            for (int r = 0; r < rows; r++) {
                long at = all.panelOffset((from + r) / WeightFormat.PANEL_ROWS);
                int lane = (from + r) % WeightFormat.PANEL_ROWS;
                Panels.codes(format(), all.data(), at, cols(), lane, codes, r * cols());
                for (int g = 0; g < groups; g++) {
                    scales[r * groups + g] = Panels.scale(format(), all.data(), at, lane, g);
                }
            }
            encode(codes, scales, rows, part.data(), part.panelOffset(panel));
        });
        return part;
    }

    private void encode(float[] codes, float[] scales, int rows, MemorySegment out, long at) {
        byte[] octets = new byte[codes.length];
        short[] halves = new short[scales.length];
        for (int i = 0; i < codes.length; i++) {
            octets[i] = format() == WeightFormat.FP8 ? Float8.fromFloat(codes[i]) : (byte) codes[i];
        }
        for (int i = 0; i < scales.length; i++) {
            halves[i] = BFloat16.fromFloat(scales[i]);
        }
        switch (format()) {
            case INT8 -> Int8Panel.encode(octets, halves, rows, cols(), out, at);
            case INT4 -> Int4Panel.encode(octets, halves, rows, cols(), out, at);
            default -> Fp8Panel.encode(octets, scales, rows, cols(), out, at);
        }
    }

    @Override
    public Matrix.Source dense(Kernels kernels, Arena arena) {
        boolean halves = format() == WeightFormat.BF16 || format() == WeightFormat.PACKED;
        MemorySegment all =
                Memory.allocate(arena, (halves ? 2L : 4L) * rows() * cols(), "decoded weights");
        try (Arena scratch = Arena.ofShared()) {
            Matrix matrix = read(kernels, scratch);
            kernels.forEach(rows(), row -> {
                float[] weights = new float[cols()];
                matrix.row(row, weights, 0);
                for (int k = 0; k < cols(); k++) {
                    long i = (long) row * cols() + k;
                    if (halves) {
                        Words.half(all, 2 * i, (short) (Float.floatToRawIntBits(weights[k]) >>> 16));
                    } else {
                        Words.real(all, 4 * i, weights[k]);
                    }
                }
            });
        }
        return Matrix.Source.rowMajor(halves ? DType.BF16 : DType.F32, all, rows(), cols());
    }
}

package millrace.engine;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.checkpoint.Blob;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.format.BFloat16;
import millrace.engine.format.Words;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.model.WeightTargets;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.ShardWriter;
import millrace.engine.weights.StoredTensor;
import org.jspecify.annotations.Nullable;

/// Makes the weight files of [ModelPacker] one by one, each read back before it counts.
final class PackedShards {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final ModelFiles files;
    private final Kernels kernels;
    private final WeightTargets targets;
    private final boolean plain;

    /// @param plain whether matrices are written as BF16 tensors of the usual layout
    PackedShards(ModelFiles files, Kernels kernels, WeightTargets targets, boolean plain) {
        this.files = files;
        this.kernels = kernels;
        this.targets = targets;
        this.plain = plain;
    }

    /// A tensor of the source: a matrix, or one that is copied.
    ///
    /// @param bytes in the source
    record Entry(String name, @Nullable LinearTensor linear, long bytes) {}

    /// A finished file; its record on the disk says under which key it was made.
    record Shard(
            String name,
            String key,
            long bytes,
            String sha256,
            List<String> tensors,
            List<ModelPacker.PackedMatrix> matrices) {}

    static Path record(Path directory, String name) {
        return directory.resolve(name + ".done");
    }

    /// The file if an earlier run finished it under the same key and nobody has changed it since.
    @Nullable Shard finished(Path directory, String name, String key) throws IOException {
        Path record = record(directory, name);
        Path file = directory.resolve(name);
        if (!Files.exists(record) || !Files.exists(file)) {
            return null;
        }
        Shard shard;
        try {
            shard = JSON.readValue(record.toFile(), Shard.class);
        } catch (IOException e) {
            return null; // Cut short by what interrupted the run: made again.
        }
        boolean same = shard.key().equals(key)
                && shard.bytes() == Files.size(file)
                && shard.sha256().equals(ModelFiles.sha256(file));
        return same ? shard : null;
    }

    Shard write(Path directory, String name, String key, List<Entry> entries) throws IOException {
        Path file = directory.resolve(name);
        Files.deleteIfExists(record(directory, name));
        try (Arena arena = Arena.ofShared()) {
            List<StoredTensor> tensors = new ArrayList<>();
            List<ModelPacker.PackedMatrix> matrices = new ArrayList<>();
            Map<String, Matrix> packed = new HashMap<>();
            for (Entry entry : entries) {
                LinearTensor linear = entry.linear();
                if (linear == null) {
                    tensors.add(files.tensor(entry.name()));
                } else if (plain) {
                    StoredTensor halves = halves(linear, arena);
                    tensors.add(halves);
                    String id = halves.dtype() == DType.BF16 ? "bf16" : "f32";
                    matrices.add(matrix(linear, id, halves, LinearTensor.Escapes.NONE, !linear.quantised()));
                } else {
                    Matrix matrix = linear.matrix(targets.of(linear), kernels, arena);
                    boolean exact = linear.quantised() || !matrix.format().grouped();
                    if (exact) {
                        requireExact(linear, matrix);
                    }
                    packed.put(entry.name(), matrix);
                    StoredTensor blob = ShardWriter.octets(entry.name(), Blob.write(entry.name(), matrix, arena));
                    tensors.add(blob);
                    LinearTensor.Escapes escapes = Blob.of(blob).escapes(blob);
                    matrices.add(matrix(linear, matrix.format().id(), blob, escapes, exact));
                }
            }
            ShardWriter.write(file, tensors);
            verify(file, tensors, packed);
            Shard shard = new Shard(
                    name,
                    key,
                    Files.size(file),
                    ModelFiles.sha256(file),
                    tensors.stream().map(StoredTensor::name).toList(),
                    matrices);
            Files.write(record(directory, name), JSON.writeValueAsBytes(shard));
            return shard;
        }
    }

    private static ModelPacker.PackedMatrix matrix(
            LinearTensor linear, String format, StoredTensor stored, LinearTensor.Escapes escapes, boolean exact) {
        long weights = (long) linear.rows() * linear.cols();
        return new ModelPacker.PackedMatrix(
                linear.name(), format, weights, stored.data().byteSize(), escapes.weights(), escapes.rawPanels(), exact);
    }

    /// The matrix in the usual layout: BF16, rounded if it was quantised; what was published in F32 stays so.
    private StoredTensor halves(LinearTensor linear, Arena arena) {
        Matrix.Source dense = linear.dense(kernels, arena);
        long[] shape = {linear.rows(), linear.cols()};
        if (dense.dtype() == DType.BF16 || !linear.quantised()) {
            return new StoredTensor(
                    linear.name(), dense.dtype(), shape, dense.data().asSlice(dense.first() * dense.dtype().bytes()));
        }
        MemorySegment rounded = Memory.allocate(arena, 2L * linear.rows() * linear.cols(), "a matrix in BF16");
        kernels.forEach(linear.rows(), row -> {
            for (int k = 0; k < linear.cols(); k++) {
                Words.half(rounded, 2 * ((long) row * linear.cols() + k), BFloat16.fromFloat(dense.number(row, k)));
            }
        });
        return new StoredTensor(linear.name(), DType.BF16, shape, rounded);
    }

    /// Lossless formats are proved on every number.
    private void requireExact(LinearTensor linear, Matrix matrix) {
        try (Arena scratch = Arena.ofShared()) {
            Matrix.Source dense = linear.dense(kernels, scratch);
            kernels.forEach(linear.rows(), row -> {
                float[] got = new float[linear.cols()];
                matrix.row(row, got, 0);
                for (int k = 0; k < got.length; k++) {
                    if (Float.floatToRawIntBits(got[k]) != Float.floatToRawIntBits(dense.number(row, k))) {
                        throw broken(linear.name(), "row " + row + ", column " + k + ": expected the number of the source");
                    }
                }
            });
        }
    }

    private void verify(Path file, List<StoredTensor> written, Map<String, Matrix> packed) {
        try (Arena mapped = Arena.ofShared()) {
            var read = List.copyOf(ShardWriter.read(file, mapped));
            for (int i = 0; i < written.size(); i++) {
                String name = written.get(i).name();
                StoredTensor back = read.get(i);
                if (!back.name().equals(name) || back.data().mismatch(written.get(i).data()) >= 0) {
                    throw broken(name, "expected the bytes that were written");
                }
                Matrix matrix = packed.get(name);
                if (matrix != null) {
                    try (Arena scratch = Arena.ofShared()) {
                        Matrix again = Blob.of(back).read(back, kernels, scratch);
                        if (again.data().mismatch(matrix.data()) >= 0) {
                            throw broken(name, "expected the panels that were written");
                        }
                    }
                }
            }
        }
    }

    private static InvalidModelException broken(String name, String expected) {
        return new InvalidModelException(
                "PACK_VERIFY", "pack: " + name + ": " + expected + ", got another; check the disk and the memory of this"
                        + " machine, and report this if it returns");
    }
}

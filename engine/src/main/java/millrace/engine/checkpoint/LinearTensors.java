package millrace.engine.checkpoint;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import millrace.engine.InvalidModelException;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.StoredTensor;
import millrace.engine.weights.TensorManifest;

/// Finds the tensors of a linear layer and checks that they are what config.json says.
public final class LinearTensors {
    private static final Set<DType> PLAIN = Set.of(DType.BF16, DType.F16, DType.F32);
    private static final Set<DType> SCALES = Set.of(DType.BF16, DType.F32);
    private static final String WEIGHT = ".weight";
    private static final List<String> TRACES =
            List.of("_packed", "_scale", "_scale_inv", "_zero_point", "_g_idx", "_global_scale");

    private final ModelFiles files;
    private final Quantization quantization;

    public LinearTensors(ModelFiles files, Quantization quantization) {
        this.files = files;
        this.quantization = quantization;
    }

    /// The layer of that weight.
    ///
    /// @param weight name that ends in `.weight`
    /// @param linear whether it is a layer that a quantiser may have taken: not an embedding, not a router
    /// @throws InvalidModelException `MODEL_TENSOR_*`, `MODEL_QUANT_*`, `BLOCK_*`
    public LinearTensor open(String weight, boolean linear, int rows, int cols) {
        String module = weight.substring(0, weight.length() - WEIGHT.length());
        Quantization.Scheme scheme = linear || quantization.scheme() == Quantization.Scheme.MILLRACE
                ? quantization.of(module)
                : Quantization.Scheme.NONE;
        return switch (scheme) {
            case NONE -> plain(weight, rows, cols);
            case INT4 -> int4(weight, rows, cols);
            case FP8_BLOCK -> fp8(weight, rows, cols, quantization.blockRows(), quantization.blockCols());
            case FP8_CHANNEL -> fp8(weight, rows, cols, 1, cols);
            case FP8_TENSOR -> fp8(weight, rows, cols, rows, cols);
            case MILLRACE -> packed(weight, rows, cols);
        };
    }

    /// Names of the tensors that a layer consists of, present ones only.
    public List<String> names(String weight) {
        var names = new ArrayList<String>();
        Stream.of("", "_packed", "_scale", "_scale_inv", "_shape").map(weight::concat).forEach(names::add);
        names.add(weight.substring(0, weight.length() - WEIGHT.length()) + ".input_scale");
        names.removeIf(name -> !files.has(name));
        return names;
    }

    /// Whether the layer is stored as one tensor of plain numbers, whatever config.json says.
    public boolean plain(String weight) {
        return files.has(weight)
                && PLAIN.contains(files.tensor(weight).dtype())
                && TRACES.stream().noneMatch(trace -> files.has(weight + trace));
    }

    private LinearTensor plain(String weight, int rows, int cols) {
        for (String trace : TRACES) {
            if (files.has(weight + trace)) {
                throw new InvalidModelException(
                        "MODEL_QUANT_MISMATCH",
                        "weights: " + weight + ": expected a plain tensor by config.json, got also " + weight + trace
                                + "; check that config.json belongs to these weights");
            }
        }
        return new PlainTensor(tensor(weight, PLAIN, "BF16, F16 or F32", rows, cols), rows, cols);
    }

    private LinearTensor packed(String weight, int rows, int cols) {
        StoredTensor stored = files.tensor(weight);
        if (stored.dtype() != DType.U8) {
            return plain(weight, rows, cols);
        }
        Blob blob = Blob.of(stored);
        if (blob.rows() != rows || blob.cols() != cols) {
            throw Blob.refused(weight, "expected %d × %d by config.json, got %d × %d"
                    .formatted(rows, cols, blob.rows(), blob.cols()));
        }
        TensorManifest manifest = files.manifest();
        TensorManifest.Entry entry = manifest == null ? null : manifest.tensor(weight);
        return new BlobTensor(stored, blob, entry == null ? null : entry.decoded());
    }

    private LinearTensor int4(String weight, int rows, int cols) {
        quantised(weight, weight + "_packed");
        quantised(weight, weight + "_scale");
        alone(weight, "_packed", List.of("", "_scale_inv"));
        for (String unknown : List.of("_zero_point", "_g_idx")) {
            if (files.has(weight + unknown)) {
                throw new InvalidModelException(
                        "MODEL_QUANT_UNSUPPORTED",
                        "weights: " + weight + unknown + ": expected symmetric codes in order of their columns, got"
                                + " this tensor; use a checkpoint with symmetric INT4 in groups of 32");
            }
        }
        int words = (cols + Int4Tensor.PER_WORD - 1) / Int4Tensor.PER_WORD;
        StoredTensor codes = tensor(weight + "_packed", Set.of(DType.I32), "I32", rows, words);
        StoredTensor scales = tensor(
                weight + "_scale", Set.of(DType.BF16), "BF16", rows, WeightFormat.INT4.groups(cols));
        checkShape(weight + "_shape", rows, cols);
        return new Int4Tensor(weight, rows, cols, codes.data(), scales.data());
    }

    /// The true shape, since the last word of a row may be padded.
    private void checkShape(String name, int rows, int cols) {
        if (!files.has(name)) {
            return;
        }
        StoredTensor shape = files.tensor(name);
        boolean wide = shape.dtype() == DType.I64;
        if (!wide && shape.dtype() != DType.I32 || shape.elements() != 2) {
            throw wrongShape(name, "two numbers of type I32 or I64", shape.dtype() + " " + Arrays.toString(shape.shape()));
        }
        var bytes = shape.data().asByteBuffer().order(java.nio.ByteOrder.LITTLE_ENDIAN);
        long first = wide ? bytes.getLong(0) : bytes.getInt(0);
        long second = wide ? bytes.getLong(8) : bytes.getInt(4);
        if (first != rows || second != cols) {
            throw wrongShape(name, "[" + rows + ", " + cols + "] by config.json", "[" + first + ", " + second + "]");
        }
    }

    private LinearTensor fp8(String weight, int rows, int cols, int blockRows, int blockCols) {
        quantised(weight, weight + quantization.scaleSuffix());
        alone(weight, quantization.scaleSuffix(), List.of("_packed", "_shape", "_scale", "_scale_inv"));
        StoredTensor codes = tensor(weight, Set.of(DType.F8_E4M3), DType.F8_E4M3.name(), rows, cols);
        int down = (rows + blockRows - 1) / blockRows;
        int across = (cols + blockCols - 1) / blockCols;
        StoredTensor scales = files.tensor(weight + quantization.scaleSuffix());
        boolean powers = quantization.scheme() == Quantization.Scheme.FP8_BLOCK && scales.dtype() == DType.F8_E8M0;
        if (!SCALES.contains(scales.dtype()) && !powers) {
            throw dtype(scales, "F32 or BF16");
        }
        // A column or a single number may be written with fewer dimensions.
        if (scales.elements() != (long) down * across || across > 1 && scales.shape()[0] != down) {
            throw wrongShape(scales.name(), "[" + down + ", " + across + "]", Arrays.toString(scales.shape()));
        }
        return new Fp8Tensor(codes, rows, cols, scales, blockRows, blockCols);
    }

    /// Two ways to read a layer are one too many.
    private void alone(String weight, String suffix, List<String> others) {
        for (String other : others) {
            if (!other.equals(suffix) && files.has(weight + other)) {
                throw new InvalidModelException(
                        "MODEL_QUANT_MISMATCH",
                        "weights: " + weight + suffix + ": expected no " + weight + other + " beside it, got one;"
                                + " check that config.json belongs to these weights");
            }
        }
    }

    private void quantised(String weight, String needed) {
        if (!files.has(needed)) {
            throw new InvalidModelException(
                    "MODEL_QUANT_MISMATCH",
                    "weights: " + weight + ": expected it quantised by config.json, got weights without " + needed
                            + "; check that config.json belongs to these weights");
        }
    }

    private StoredTensor tensor(String name, Set<DType> types, String expected, int rows, int cols) {
        StoredTensor tensor = files.tensor(name);
        if (!Arrays.equals(tensor.shape(), new long[] {rows, cols})) {
            throw wrongShape(name, "shape [" + rows + ", " + cols + "] by config.json", Arrays.toString(tensor.shape()));
        }
        if (!types.contains(tensor.dtype())) {
            throw dtype(tensor, expected);
        }
        return tensor;
    }

    private static InvalidModelException wrongShape(String name, String expected, String got) {
        return new InvalidModelException(
                "MODEL_TENSOR_SHAPE",
                "weights: " + name + ": expected " + expected + ", got " + got
                        + "; check that config.json belongs to these weights");
    }

    private static InvalidModelException dtype(StoredTensor tensor, String expected) {
        return new InvalidModelException(
                "MODEL_TENSOR_DTYPE",
                "weights: " + tensor.name() + ": expected " + expected + ", got " + tensor.dtype()
                        + "; use a checkpoint whose config.json tells how its weights are quantised");
    }
}

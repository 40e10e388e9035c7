package millrace.engine.checkpoint;

import java.lang.foreign.Arena;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.weights.TensorManifest;
import org.jspecify.annotations.Nullable;

/// The weights `[rows][cols]` of a linear layer, whatever tensors hold them.
public sealed interface LinearTensor permits PlainTensor, Int4Tensor, Fp8Tensor, BlobTensor {
    /// Name of the layer's weight in the checkpoint, for messages.
    String name();

    int rows();

    int cols();

    /// The format that keeps these numbers exactly and in the fewest bytes without packing.
    WeightFormat format();

    /// Whether the checkpoint has quantised it: then it stays as it is, since to round twice would lose more.
    default boolean quantised() {
        return format().grouped();
    }

    /// Bytes that the files hold for it.
    long storedBytes();

    /// What a packed tensor could not say by its tables of exponents.
    ///
    /// @param weights whose exponent is written out
    /// @param rawPanels panels of 16 rows that stayed in BF16
    record Escapes(long weights, long rawPanels) {
        public static final Escapes NONE = new Escapes(0, 0);
    }

    /// Escapes of a packed tensor; none in other forms.
    default Escapes escapes() {
        return Escapes.NONE;
    }

    /// Compares all checksums that the stored form has.
    ///
    /// @throws millrace.engine.InvalidModelException `BLOCK_*`
    default void verify() {}

    /// What a packed tensor decodes to, for the model's manifest; null for other forms.
    default TensorManifest.@Nullable Decoded decoded(Kernels kernels) {
        return null;
    }

    /// The rows `[first, first + count)` as a matrix.
    ///
    /// @param target a format to convert to, for weights that are not quantised; null keeps [#format]
    /// @throws millrace.engine.InvalidModelException `MODEL_TENSOR_VALUE` and `W_SCALE` for numbers that no weight has,
    ///         `BLOCK_*` for a packed tensor that is not sound, `MODEL_TENSOR_DECODED` for one whose numbers are not
    ///         those of the manifest
    Matrix matrix(int first, int count, @Nullable WeightFormat target, Kernels kernels,
            Arena arena);

    /// All rows.
    default Matrix matrix(@Nullable WeightFormat target, Kernels kernels, Arena arena) {
        return matrix(0, rows(), target, kernels, arena);
    }

    /// All numbers, row-major, in BF16 if that holds them exactly, else in F32, in memory of the arena.
    Matrix.Source dense(Kernels kernels, Arena arena);
}

package millrace.engine.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import millrace.engine.InvalidModelException;
import millrace.engine.QuantizedModel;
import millrace.engine.SafetensorsWriter;
import millrace.engine.SafetensorsWriter.Tensor;
import millrace.engine.checkpoint.Quantization.Scheme;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class LinearTensorsTest {
    private static final Backend BACKEND = Backend.open("scalar", 1);
    private static final String X = "x.weight";
    private static final Quantization INT4 = quantization(Scheme.INT4, 0, 0, "");
    private static final Quantization BLOCKS = quantization(Scheme.FP8_BLOCK, 128, 128, "_scale_inv");
    private static final Quantization CHANNELS = quantization(Scheme.FP8_CHANNEL, 0, 0, "_scale");

    @TempDir
    Path dir;

    @AfterAll
    static void close() {
        BACKEND.close();
    }

    private static Quantization quantization(Scheme scheme, int blockRows, int blockCols, String suffix) {
        return new Quantization(scheme, blockRows, blockCols, suffix, Exemptions.NONE, "");
    }

    private static float[] random(int count) {
        var random = new SplittableRandom(3);
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    /// The numbers of `x`, through panels and row by row; both must agree.
    private float[] weights(List<Tensor> tensors, Quantization quantization, int rows, int cols) throws IOException {
        try (ModelFiles files = open(tensors);
                Arena arena = Arena.ofShared()) {
            LinearTensor x = new LinearTensors(files, quantization).open(X, true, rows, cols);
            Matrix matrix = x.matrix(null, BACKEND.kernels(), arena);
            Matrix.Source dense = x.dense(BACKEND.kernels(), arena);
            float[] all = new float[rows * cols];
            for (int r = 0; r < rows; r++) {
                matrix.row(r, all, r * cols);
                for (int k = 0; k < cols; k++) {
                    assertThat(dense.number(r, k)).isEqualTo(all[r * cols + k]);
                }
            }
            return all;
        }
    }

    private ModelFiles open(List<Tensor> tensors) throws IOException {
        Files.writeString(dir.resolve("config.json"), "{}");
        SafetensorsWriter.write(dir.resolve("model.safetensors"), tensors);
        return ModelFiles.open(dir);
    }

    private void refused(List<Tensor> tensors, Quantization quantization, int rows, int cols, String code, String message) {
        InvalidModelException e =
                catchThrowableOfType(InvalidModelException.class, () -> weights(tensors, quantization, rows, cols));
        assertThat(e).as("refusal: " + message).isNotNull();
        assertThat(e).hasMessage("weights: " + message);
        assertThat(e.code()).isEqualTo(code);
    }

    /// The tensors without one, and with another.
    private static List<Tensor> change(List<Tensor> tensors, String without, Tensor... with) {
        var changed = new ArrayList<>(tensors);
        changed.removeIf(tensor -> tensor.name().equals(without));
        changed.addAll(List.of(with));
        return changed;
    }

    private static Tensor patched(List<Tensor> tensors, String name, Consumer<ByteBuffer> change) {
        Tensor old = tensors.stream().filter(t -> t.name().equals(name)).findFirst().orElseThrow();
        byte[] data = old.data().clone();
        change.accept(ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN));
        return new Tensor(name, old.dtype(), old.shape(), data);
    }

    private static Tensor tensor(String name, String dtype, int bytes, long... shape) {
        return new Tensor(name, dtype, shape, new byte[bytes]);
    }

    private static Tensor words(String name, int... words) {
        ByteBuffer data = ByteBuffer.allocate(4 * words.length).order(ByteOrder.LITTLE_ENDIAN);
        data.asIntBuffer().put(words);
        return new Tensor(name, "I32", new long[] {1, words.length}, data.array());
    }

    private static Tensor halves(String name, int... halves) {
        ByteBuffer data = ByteBuffer.allocate(2 * halves.length).order(ByteOrder.LITTLE_ENDIAN);
        for (int half : halves) {
            data.putShort((short) half);
        }
        return new Tensor(name, "BF16", new long[] {1, halves.length}, data.array());
    }

    // ----------------------------------------------------------------------------------------------------- INT4

    @Test
    void wordsShouldHoldTheirColumnsFromTheLowEnd() throws IOException {
        // Codes −8 to 7 in order are 0x76543210 and 0xFEDCBA98, whatever a consumer of bytes would make of them.
        float[] got = weights(
                List.of(words(X + "_packed", 0x76543210, 0xFEDCBA98), halves(X + "_scale", 0x3F00)), INT4, 1, 16);
        float[] expected = new float[16];
        for (int k = 0; k < 16; k++) {
            expected[k] = (k - 8) * 0.5f;
        }
        assertThat(got).containsExactly(expected);
    }

    @Test
    void scalesShouldNotBeDerivedAgain() throws IOException {
        // Codes of −7 to 7 under a scale that no rule on their magnitudes gives: 0.3007812.
        float scale = Float.intBitsToFloat(0x3E9A << 16);
        float[] got = weights(
                List.of(words(X + "_packed", 0x7654321F, 0xFEDCBA98), halves(X + "_scale", 0x3E9A)), INT4, 1, 16);
        assertThat(got[0]).isEqualTo(7 * scale);
        assertThat(got[1]).isEqualTo(-7 * scale);
        assertThat(got[15]).isEqualTo(7 * scale);
        try (ModelFiles files = ModelFiles.open(dir);
                Arena arena = Arena.ofShared()) {
            Matrix matrix =
                    new LinearTensors(files, INT4).open(X, true, 1, 16).matrix(null, BACKEND.kernels(), arena);
            assertThat(matrix.data().get(ValueLayout.JAVA_SHORT, 0)).isEqualTo((short) 0x3E9A);
        }
    }

    /// A group of nothing but zeros has such a scale; its numbers are what arithmetic makes of it.
    @Test
    void scaleOfZeroShouldGiveZeros() throws IOException {
        float[] got = weights(List.of(words(X + "_packed", 0x7654321F, 0xFEDCBA98), halves(X + "_scale", 0)), INT4, 1, 16);
        for (float weight : got) {
            assertThat(Math.abs(weight)).isZero();
        }
    }

    @Test
    void columnsShouldSplitOnTheBoundaryOfAGroup() throws IOException {
        // Two halves of the columns, as tensor parallelism cuts them, hold what the whole holds.
        int rows = 20;
        List<Tensor> whole = QuantizedModel.int4(X, random(rows * 128), rows, 128).tensors();
        float[] all = weights(whole, INT4, rows, 128);
        for (int half = 0; half < 2; half++) {
            float[] got = weights(
                    List.of(columns(whole.get(0), 64, half), columns(whole.get(1), 8, half)), INT4, rows, 64);
            for (int r = 0; r < rows; r++) {
                assertThat(Arrays.copyOfRange(got, r * 64, r * 64 + 64))
                        .containsExactly(Arrays.copyOfRange(all, r * 128 + half * 64, r * 128 + half * 64 + 64));
            }
        }
    }

    private static Tensor columns(Tensor tensor, int rowBytes, int half) {
        int rows = (int) tensor.shape()[0];
        byte[] data = new byte[rows * rowBytes / 2];
        for (int r = 0; r < rows; r++) {
            System.arraycopy(tensor.data(), r * rowBytes + half * rowBytes / 2, data, r * rowBytes / 2, rowBytes / 2);
        }
        return new Tensor(tensor.name(), tensor.dtype(), new long[] {rows, tensor.shape()[1] / 2}, data);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 31, 33, 80, 96, 100, 130})
    void rowsThatAreNotWholeGroupsOrWordsShouldKeepTheirPlaces(int cols) throws IOException {
        QuantizedModel.Parts parts = QuantizedModel.int4(X, random(21 * cols), 21, cols);
        assertThat(weights(parts.tensors(), INT4, 21, cols)).containsExactly(parts.weights());
    }

    @Test
    void int4ThatIsNotUnderstoodShouldBeRefused() {
        List<Tensor> sound = QuantizedModel.int4(X, random(64), 2, 32).tensors();
        for (String part : List.of("_zero_point", "_g_idx")) {
            refused(
                    change(sound, "", tensor(X + part, "I32", 4, 1)),
                    INT4,
                    2,
                    32,
                    "MODEL_QUANT_UNSUPPORTED",
                    X + part + ": expected symmetric codes in order of their columns, got this tensor;"
                            + " use a checkpoint with symmetric INT4 in groups of 32");
        }
        refused(
                change(sound, X + "_packed", tensor(X, "BF16", 128, 2, 32)),
                INT4,
                2,
                32,
                "MODEL_QUANT_MISMATCH",
                X + ": expected it quantised by config.json, got weights without x.weight_packed;"
                        + " check that config.json belongs to these weights");
        refused(
                change(sound, "", tensor(X, "BF16", 128, 2, 32)),
                INT4,
                2,
                32,
                "MODEL_QUANT_MISMATCH",
                X + "_packed: expected no x.weight beside it, got one; check that config.json belongs to these weights");
        refused(
                change(sound, X + "_shape", new Tensor(X + "_shape", "I32", new long[] {2}, new byte[8])),
                INT4,
                2,
                32,
                "MODEL_TENSOR_SHAPE",
                X + "_shape: expected [2, 32] by config.json, got [0, 0]; check that config.json belongs to these weights");
        refused(
                change(sound, X + "_packed", tensor(X + "_packed", "U8", 32, 2, 16)),
                INT4,
                2,
                32,
                "MODEL_TENSOR_SHAPE",
                X + "_packed: expected shape [2, 4] by config.json, got [2, 16];"
                        + " check that config.json belongs to these weights");
        refused(
                change(sound, X + "_scale", tensor(X + "_scale", "F16", 4, 2, 1)),
                INT4,
                2,
                32,
                "MODEL_TENSOR_DTYPE",
                X + "_scale: expected BF16, got F16;"
                        + " use a checkpoint whose config.json tells how its weights are quantised");
        refused(
                change(sound, X + "_scale", patched(sound, X + "_scale", b -> b.putShort(2, (short) 0x7FC0))),
                INT4,
                2,
                32,
                "W_SCALE",
                X + ": row 1, group 0: expected a finite scale, got NaN; restore the checkpoint");
    }

    @Test
    void missingScaleShouldBeRefused() {
        List<Tensor> sound = QuantizedModel.int4(X, random(64), 2, 32).tensors();
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class, () -> weights(change(sound, X + "_scale"), INT4, 2, 32));
        assertThat(e.code()).isEqualTo("MODEL_QUANT_MISMATCH");
        assertThat(e).hasMessage("weights: x.weight: expected it quantised by config.json, got weights without"
                + " x.weight_scale; check that config.json belongs to these weights");
    }

    // ------------------------------------------------------------------------------------------------------ FP8

    @ParameterizedTest
    @CsvSource({"1, 1", "130, 80", "33, 96", "300, 300", "128, 256"})
    void blocksAtTheEdgesShouldKeepTheirScales(int rows, int cols) throws IOException {
        for (String dtype : List.of("F32", "BF16", "F8_E8M0")) {
            QuantizedModel.Parts parts = QuantizedModel.fp8(128, 128, "_scale_inv", dtype)
                    .apply(X, random(rows * cols), rows, cols);
            assertThat(weights(parts.tensors(), BLOCKS, rows, cols)).containsExactly(parts.weights());
        }
        QuantizedModel.Parts channels =
                QuantizedModel.fp8(1, 1 << 20, "_scale", "BF16").apply(X, random(rows * cols), rows, cols);
        assertThat(weights(channels.tensors(), CHANNELS, rows, cols)).containsExactly(channels.weights());
    }

    @Test
    void fp8ThatIsNotUnderstoodShouldBeRefused() {
        List<Tensor> sound =
                QuantizedModel.fp8(128, 128, "_scale_inv", "F32").apply(X, random(3 * 140), 3, 140).tensors();
        for (int code : new int[] {0x7F, 0xFF}) {
            refused(
                    change(sound, X, patched(sound, X, b -> b.put(2 * 140 + 131, (byte) code))),
                    BLOCKS,
                    3,
                    140,
                    "MODEL_TENSOR_VALUE",
                    "%s: row 2, column 131: expected a number, got the FP8 NaN 0x%02X; restore the checkpoint"
                            .formatted(X, code));
        }
        refused(
                change(sound, X + "_scale_inv", patched(sound, X + "_scale_inv", b -> b.putInt(4, 0x7F800000))),
                BLOCKS,
                3,
                140,
                "W_SCALE",
                X + ": row 0, column 128: expected a finite scale, got Infinity; restore the checkpoint");
        refused(
                change(sound, X + "_scale_inv"),
                BLOCKS,
                3,
                140,
                "MODEL_QUANT_MISMATCH",
                X + ": expected it quantised by config.json, got weights without x.weight_scale_inv;"
                        + " check that config.json belongs to these weights");
        refused(
                change(sound, "", tensor(X + "_scale", "F32", 12, 3, 1)),
                BLOCKS,
                3,
                140,
                "MODEL_QUANT_MISMATCH",
                X + "_scale_inv: expected no x.weight_scale beside it, got one;"
                        + " check that config.json belongs to these weights");
        refused(
                change(sound, X + "_scale_inv", tensor(X + "_scale_inv", "F32", 8, 2, 1)),
                BLOCKS,
                3,
                140,
                "MODEL_TENSOR_SHAPE",
                X + "_scale_inv: expected [1, 2], got [2, 1]; check that config.json belongs to these weights");
        refused(
                change(sound, X, tensor(X, "F8_E5M2", 420, 3, 140)),
                BLOCKS,
                3,
                140,
                "MODEL_TENSOR_DTYPE",
                X + ": expected F8_E4M3, got F8_E5M2;"
                        + " use a checkpoint whose config.json tells how its weights are quantised");
    }

    @Test
    void nanScaleOfPowersShouldBeRefused() {
        List<Tensor> sound =
                QuantizedModel.fp8(128, 128, "_scale_inv", "F8_E8M0").apply(X, random(64), 2, 32).tensors();
        refused(
                change(sound, X + "_scale_inv", patched(sound, X + "_scale_inv", b -> b.put(0, (byte) 255))),
                BLOCKS,
                2,
                32,
                "W_SCALE",
                X + ": row 0, column 0: expected a finite scale, got NaN; restore the checkpoint");
    }

    // -------------------------------------------------------------------------------------------------- plain

    @ParameterizedTest
    @ValueSource(strings = {"_packed", "_scale", "_scale_inv", "_zero_point", "_g_idx", "_global_scale"})
    void exemptLayerWithTracesOfQuantisationShouldBeRefused(String trace) {
        Quantization exempt = new Quantization(
                Scheme.FP8_BLOCK,
                128,
                128,
                "_scale_inv",
                new Exemptions(Set.of("x"), false, List.of()),
                "");
        refused(
                List.of(tensor(X, "BF16", 128, 2, 32), tensor(X + trace, "F32", 4, 1)),
                exempt,
                2,
                32,
                "MODEL_QUANT_MISMATCH",
                X + ": expected a plain tensor by config.json, got also " + X + trace
                        + "; check that config.json belongs to these weights");
    }

    @Test
    void infinitePlainWeightsShouldBeRefusedWhenTheyAreQuantised() throws IOException {
        Tensor tensor = halves(X, 0x3F80, 0x7F80);
        try (ModelFiles files = open(List.of(tensor));
                Arena arena = Arena.ofShared()) {
            LinearTensor x = new LinearTensors(files, Quantization.NONE).open(X, true, 1, 2);
            InvalidModelException e = catchThrowableOfType(
                    InvalidModelException.class,
                    () -> x.matrix(WeightFormat.INT8, BACKEND.kernels(), arena));
            assertThat(e.code()).isEqualTo("MODEL_TENSOR_VALUE");
            assertThat(e).hasMessage("weights: x.weight: column 1: expected a finite weight, got Infinity;"
                    + " restore the checkpoint");
        }
    }

    // -------------------------------------------------------------------------------------------------- packed

    @Test
    void packedTensorOfAnotherShapeShouldBeRefused() throws IOException {
        Quantization millrace = quantization(Scheme.MILLRACE, 0, 0, "");
        try (Arena arena = Arena.ofShared()) {
            var source = Matrix.Source.rowMajor(
                    DType.BF16, arena.allocate(2 * 32 * 48), 32, 48);
            byte[] blob = Blob.write(X, BACKEND.kernels().pack(source, WeightFormat.INT8, arena), arena)
                    .toArray(ValueLayout.JAVA_BYTE);
            List<Tensor> tensors = List.of(new Tensor(X, "U8", new long[] {blob.length}, blob));
            assertThat(weights(tensors, millrace, 32, 48)).containsOnly(0f);
            refused(
                    tensors,
                    millrace,
                    48,
                    32,
                    "BLOCK_FORMAT",
                    X + ": expected 48 × 32 by config.json, got 32 × 48; pack the checkpoint again");
        }
    }

    @ParameterizedTest
    @CsvSource({"INT8, 8", "INT4, 16", "FP8, 21", "PACKED, 8", "BF16, 21", "INT4, 0"})
    void partOfAPackedTensorMayBeginWithinAPanel(WeightFormat format, int first) throws IOException {
        int rows = 45;
        int cols = 70;
        try (Arena arena = Arena.ofShared()) {
            var data = arena.allocate(2 * rows * cols, 64);
            short[] values = BlobTest.weights(rows * cols, 0.01, 9);
            MemorySegment.copy(
                    values, 0, data, ValueLayout.JAVA_SHORT, 0, values.length);
            var source = Matrix.Source.rowMajor(DType.BF16, data, rows, cols);
            Matrix whole = BACKEND.kernels().pack(source, format, arena);
            byte[] blob = Blob.write(X, whole, arena).toArray(ValueLayout.JAVA_BYTE);
            try (ModelFiles files = open(List.of(new Tensor(X, "U8", new long[] {blob.length}, blob)))) {
                LinearTensor x = new LinearTensors(files, quantization(Scheme.MILLRACE, 0, 0, ""))
                        .open(X, true, rows, cols);
                Matrix part = x.matrix(first, 24, null, BACKEND.kernels(), arena);
                assertThat(part.format()).isEqualTo(format);
                float[] expected = new float[cols];
                float[] got = new float[cols];
                for (int r = 0; r < 24; r++) {
                    whole.row(first + r, expected, 0);
                    part.row(r, got, 0);
                    assertThat(got).as("row %d", r).containsExactly(expected);
                }
            }
        }
    }
}

package millrace.engine;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import millrace.engine.kernel.DType;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.StoredTensor;

/// Quantises a plain checkpoint as the published ones are stored, and writes beside it a plain one, in F32, of the very
/// numbers that the codes and scales stand for. It shares no code with the engine.
public final class QuantizedModel {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ValueLayout.OfInt WORD =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfShort HALF =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private QuantizedModel() {}

    /// The tensors that a quantised weight is stored as, and its numbers.
    public record Parts(List<SafetensorsWriter.Tensor> tensors, float[] weights) {}

    /// A way to quantise one weight.
    public interface Scheme {
        Parts apply(String weight, float[] values, int rows, int cols);
    }

    /// Writes `quantised` and `plain` from a checkpoint in BF16.
    ///
    /// @param which weights to quantise, by their full names
    /// @param config what `quantization_config` says, put into `text_config` where there is one
    public static void write(
            Path from, Path quantised, Path plain, Predicate<String> which, Scheme scheme, ObjectNode config)
            throws IOException {
        var coded = new ArrayList<SafetensorsWriter.Tensor>();
        var decoded = new ArrayList<SafetensorsWriter.Tensor>();
        try (ModelFiles files = ModelFiles.open(from)) {
            for (String name : files.tensorNames()) {
                StoredTensor tensor = files.tensor(name);
                if (!which.test(name)) {
                    byte[] bytes = tensor.data().toArray(ValueLayout.JAVA_BYTE);
                    var copy = new SafetensorsWriter.Tensor(name, tensor.dtype().name(), tensor.shape(), bytes);
                    coded.add(copy);
                    decoded.add(copy);
                    continue;
                }
                int rows = (int) tensor.shape()[0];
                int cols = (int) tensor.shape()[1];
                Parts parts = scheme.apply(name, values(tensor), rows, cols);
                coded.addAll(parts.tensors());
                decoded.add(new SafetensorsWriter.Tensor(name, "F32", tensor.shape(), floats(parts.weights())));
            }
        }
        ObjectNode root = (ObjectNode) JSON.readTree(from.resolve("config.json").toFile());
        copy(from, plain, root, decoded);
        (root.path("text_config") instanceof ObjectNode text ? text : root).set("quantization_config", config);
        copy(from, quantised, root, coded);
    }

    private static void copy(Path from, Path to, ObjectNode config, List<SafetensorsWriter.Tensor> tensors)
            throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> all = Files.list(from)) {
            for (Path file : all.toList()) {
                String name = file.getFileName().toString();
                if (!name.contains("safetensors") && Files.isRegularFile(file)) {
                    Files.copy(file, to.resolve(name), StandardCopyOption.REPLACE_EXISTING);
                }
            }
        }
        Files.writeString(to.resolve("config.json"), config.toString());
        SafetensorsWriter.write(to.resolve("model.safetensors"), tensors);
    }

    /// All numbers of a plain tensor.
    public static float[] values(StoredTensor tensor) {
        float[] values = new float[(int) tensor.elements()];
        for (int i = 0; i < values.length; i++) {
            values[i] = tensor.dtype() == DType.BF16
                    ? Float.intBitsToFloat(tensor.data().get(HALF, 2L * i) << 16)
                    : Float.intBitsToFloat(tensor.data().get(WORD, 4L * i));
        }
        return values;
    }

    // ----------------------------------------------------------------------------------------------------- INT4

    /// compressed-tensors `pack-quantized`, groups of 32, with the names of Kimi K2's experts.
    public static Parts int4(String weight, float[] values, int rows, int cols) {
        int words = (cols + 7) / 8;
        int groups = (cols + 31) / 32;
        ByteBuffer packed = bytes(4 * rows * words);
        ByteBuffer scales = bytes(2 * rows * groups);
        float[] weights = new float[values.length];
        for (int r = 0; r < rows; r++) {
            for (int g = 0; g < groups; g++) {
                float most = 0;
                for (int k = 32 * g; k < Math.min(cols, 32 * g + 32); k++) {
                    most = Math.max(most, Math.abs(values[r * cols + k]));
                }
                // By 7.5, so that codes of −7 to 7 and, now and then, −8 occur and no rule gives the scale back.
                float scale = bfloat16(most / 7.5f);
                scales.putShort(2 * (r * groups + g), (short) (Float.floatToRawIntBits(scale) >>> 16));
                for (int k = 32 * g; k < Math.min(cols, 32 * g + 32); k++) {
                    int code = scale == 0 ? 0 : Math.clamp(Math.round(values[r * cols + k] / scale), -8, 7);
                    weights[r * cols + k] = code * scale;
                    int at = 4 * (r * words + k / 8);
                    packed.putInt(at, packed.getInt(at) | code + 8 << 4 * (k % 8));
                }
            }
        }
        ByteBuffer shape = bytes(8).putInt(0, rows).putInt(4, cols);
        return new Parts(
                List.of(
                        tensor(weight + "_packed", "I32", packed, rows, words),
                        tensor(weight + "_scale", "BF16", scales, rows, groups),
                        tensor(weight + "_shape", "I32", shape, 2)),
                weights);
    }

    /// The config of Kimi K2 Thinking.
    public static ObjectNode int4Config(String... ignore) {
        ObjectNode config = compressed("pack-quantized", ignore);
        weights(config)
                .put("num_bits", 4)
                .put("type", "int")
                .put("strategy", "group")
                .put("group_size", 32)
                .put("symmetric", true)
                .put("dynamic", false)
                .putNull("actorder");
        return config;
    }

    // ------------------------------------------------------------------------------------------------------ FP8

    /// FP8 with scales for blocks.
    ///
    /// @param suffix `_scale_inv` or `_scale`
    /// @param dtype of the scales: F32, BF16 or F8_E8M0
    public static Scheme fp8(int blockRows, int blockCols, String suffix, String dtype) {
        return (weight, values, rows, cols) -> {
            int down = (rows + blockRows - 1) / blockRows;
            int across = (cols + blockCols - 1) / blockCols;
            float[] scales = new float[down * across];
            for (int i = 0; i < values.length; i++) {
                int block = i / cols / blockRows * across + i % cols / blockCols;
                scales[block] = Math.max(scales[block], Math.abs(values[i]) / 448);
            }
            for (int i = 0; i < scales.length; i++) {
                scales[i] = switch (dtype) {
                    case "BF16" -> bfloat16(scales[i]);
                    case "F8_E8M0" -> Math.scalb(1f, Math.getExponent(scales[i]) + 1);
                    default -> scales[i];
                };
            }
            ByteBuffer codes = bytes(values.length);
            float[] weights = new float[values.length];
            for (int i = 0; i < values.length; i++) {
                float scale = scales[i / cols / blockRows * across + i % cols / blockCols];
                int code = nearest(scale == 0 ? 0 : values[i] / scale);
                codes.put(i, (byte) code);
                weights[i] = E4M3[code] * scale;
            }
            return new Parts(
                    List.of(
                            tensor(weight, "F8_E4M3", codes, rows, cols),
                            tensor(weight + suffix, dtype, scales(scales, dtype), down, across)),
                    weights);
        };
    }

    /// The config of DeepSeek V3 and Kimi K2 Instruct.
    public static ObjectNode fp8Config(int blockRows, int blockCols) {
        ObjectNode config = JSON.createObjectNode()
                .put("quant_method", "fp8")
                .put("fmt", "e4m3")
                .put("activation_scheme", "dynamic");
        config.putArray("weight_block_size").add(blockRows).add(blockCols);
        return config;
    }

    /// The config of GLM-4.6-FP8: a scale for each channel.
    public static ObjectNode fp8ChannelConfig(String... ignore) {
        ObjectNode config = compressed("float-quantized", ignore);
        weights(config)
                .put("num_bits", 8)
                .put("type", "float")
                .put("strategy", "channel")
                .put("symmetric", true)
                .put("dynamic", false);
        ((ObjectNode) config.at("/config_groups/group_0"))
                .putObject("input_activations")
                .put("num_bits", 8)
                .put("type", "float")
                .put("strategy", "token")
                .put("dynamic", true);
        return config;
    }

    /// A config of compressed-tensors with one group, whose weights are still to be said.
    public static ObjectNode compressed(String format, String... ignore) {
        ObjectNode config = JSON.createObjectNode()
                .put("quant_method", "compressed-tensors")
                .put("format", format)
                .put("quantization_status", "compressed")
                .putNull("kv_cache_scheme");
        for (String name : ignore) {
            config.withArray("/ignore").add(name);
        }
        ObjectNode group = config.putObject("config_groups").putObject("group_0");
        group.putArray("targets").add("Linear");
        group.putNull("input_activations");
        group.putObject("weights");
        return config;
    }

    /// The weights of the config's one group.
    public static ObjectNode weights(ObjectNode config) {
        return (ObjectNode) config.at("/config_groups/group_0/weights");
    }

    /// The values of the 256 codes of e4m3fn, from the definition.
    private static final float[] E4M3 = e4m3();

    private static float[] e4m3() {
        float[] values = new float[256];
        for (int code = 0; code < 256; code++) {
            int exponent = code >>> 3 & 15;
            double mantissa = (code & 7) / 8.0;
            double value = exponent == 0 ? mantissa * Math.pow(2, -6) : (1 + mantissa) * Math.pow(2, exponent - 7);
            values[code] = (code & 0x7F) == 0x7F ? Float.NaN : (float) (code < 128 ? value : -value);
        }
        return values;
    }

    private static int nearest(float value) {
        // Magnitudes ascend with their codes, the NaN last.
        int at = Arrays.binarySearch(E4M3, 0, 127, Math.abs(value));
        int above = Math.min(126, at < 0 ? -at - 1 : at);
        int below = Math.max(0, above - 1);
        int code = Math.abs(value) - E4M3[below] <= E4M3[above] - Math.abs(value) ? below : above;
        return value < 0 ? code | 0x80 : code;
    }

    private static ByteBuffer scales(float[] scales, String dtype) {
        ByteBuffer out = bytes(scales.length * (dtype.equals("F32") ? 4 : dtype.equals("BF16") ? 2 : 1));
        for (int i = 0; i < scales.length; i++) {
            int bits = Float.floatToRawIntBits(scales[i]);
            switch (dtype) {
                case "F32" -> out.putInt(4 * i, bits);
                case "BF16" -> out.putShort(2 * i, (short) (bits >>> 16));
                default -> out.put(i, (byte) (bits >>> 23));
            }
        }
        return out;
    }

    private static SafetensorsWriter.Tensor tensor(String name, String dtype, ByteBuffer data, long... shape) {
        return new SafetensorsWriter.Tensor(name, dtype, shape, data.array());
    }

    private static byte[] floats(float[] values) {
        ByteBuffer out = bytes(4 * values.length);
        for (int i = 0; i < values.length; i++) {
            out.putFloat(4 * i, values[i]);
        }
        return out.array();
    }

    private static ByteBuffer bytes(int count) {
        return ByteBuffer.allocate(count).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static float bfloat16(float value) {
        int bits = Float.floatToRawIntBits(value);
        return Float.intBitsToFloat(bits + 0x7fff + (bits >>> 16 & 1) & 0xffff0000);
    }
}

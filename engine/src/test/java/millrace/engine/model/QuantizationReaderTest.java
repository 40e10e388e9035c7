package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import millrace.engine.InvalidModelException;
import millrace.engine.QuantizedModel;
import millrace.engine.TinyModel;
import millrace.engine.checkpoint.Quantization;
import millrace.engine.checkpoint.Quantization.Scheme;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class QuantizationReaderTest {
    private static final String WHERE = "config.json.quantization_config";
    private static final String WEIGHTS = WHERE + ".config_groups.group_0.weights: ";
    private static final String ADVICE = "; use a checkpoint quantised so, or an unquantised one";

    @TempDir
    Path dir;

    private static Quantization read(ObjectNode quantization) {
        return ModelConfigTest.read(TinyModel.of("llama").with("quantization_config", quantization).config())
                .quantization();
    }

    private static void refused(ObjectNode config, Consumer<ObjectNode> change, String message) {
        change.accept(config);
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> read(config));
        assertThat(e).as("refusal: " + message).isNotNull();
        assertThat(e).hasMessage(message + ADVICE);
        assertThat(e.code()).isEqualTo("CONFIG_QUANTIZATION");
    }

    @Test
    void schemesOfThePublishedModels() {
        assertThat(read(QuantizedModel.int4Config("lm_head")).scheme()).isEqualTo(Scheme.INT4);
        Quantization blocks = read(QuantizedModel.fp8Config(128, 128));
        assertThat(blocks.scheme()).isEqualTo(Scheme.FP8_BLOCK);
        assertThat(blocks.scaleSuffix()).isEqualTo("_scale_inv");
        Quantization channels = read(QuantizedModel.fp8ChannelConfig("lm_head"));
        assertThat(channels.scheme()).isEqualTo(Scheme.FP8_CHANNEL);
        assertThat(channels.scaleSuffix()).isEqualTo("_scale");
    }

    // ------------------------------------------------------------------------------------------------- refusals

    @ParameterizedTest
    @ValueSource(strings = {"mxfp4-pack-quantized", "nvfp4-pack-quantized", "int-quantized", "marlin-24"})
    void formatsThatAreNotComputedShouldBeRefusedByName(String format) {
        refused(
                QuantizedModel.int4Config(),
                c -> c.put("format", format),
                WHERE + ": format: expected pack-quantized or float-quantized, got \"" + format + "\"");
    }

    @Test
    void otherIntegersShouldBeRefused() {
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("num_bits", 8),
                WEIGHTS + "num_bits: expected 4, got 8");
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("group_size", 128),
                WEIGHTS + "group_size: expected 32, got 128");
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("symmetric", false),
                WEIGHTS + "symmetric: expected true, got false");
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("strategy", "channel"),
                WEIGHTS + "strategy: expected group, got \"channel\"");
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("type", "float"),
                WEIGHTS + "type: expected int, got \"float\"");
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("actorder", "group"),
                WEIGHTS + "actorder: expected none, got group");
        refused(
                QuantizedModel.int4Config(),
                c -> QuantizedModel.weights(c).put("dynamic", true),
                WEIGHTS + "dynamic: expected false, got true");
    }

    @Test
    void otherFloatsShouldBeRefused() {
        refused(
                QuantizedModel.fp8ChannelConfig(),
                c -> QuantizedModel.weights(c).put("num_bits", 4),
                WEIGHTS + "num_bits: expected 8, got 4");
        refused(
                QuantizedModel.fp8ChannelConfig(),
                c -> QuantizedModel.weights(c).put("strategy", "group"),
                WEIGHTS + "strategy: expected channel, tensor or block, got \"group\"");
        refused(
                QuantizedModel.fp8Config(128, 128),
                c -> c.put("fmt", "e5m2"),
                WHERE + ": fmt: expected e4m3, got \"e5m2\"");
        refused(
                QuantizedModel.fp8Config(128, 64),
                c -> {},
                WHERE + ": weight_block_size: expected [rows, cols] with cols a multiple of 128, got [128, 64]");
    }

    @Test
    void settingsThatChangeTheMathematicsShouldBeRefused() {
        for (String key : new String[] {"kv_cache_scheme", "sparsity_config", "transform_config"}) {
            refused(
                    QuantizedModel.int4Config(),
                    c -> c.putObject(key).put("num_bits", 8),
                    WHERE + ": " + key + ": expected none, got one");
        }
        refused(
                QuantizedModel.int4Config(),
                c -> c.withObject("/config_groups").putObject("group_1"),
                WHERE + ": config_groups: expected one group, got 2");
        refused(
                QuantizedModel.int4Config(),
                c -> c.withArray("/config_groups/group_0/targets").add("re:.*experts.*"),
                WHERE + ".config_groups.group_0: targets: expected [Linear], got [Linear, re:.*experts.*]");
        refused(
                QuantizedModel.int4Config("re:(x"),
                c -> {},
                WHERE + ": ignore: expected regular expressions, got \"(x\"");
    }

    @Test
    void packedModelsOfAnotherVersionShouldBeRefused() {
        ObjectNode config = QuantizedModel.fp8Config(1, 1);
        config.removeAll();
        config.put("quant_method", "millrace").put("version", 2);
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> read(config));
        assertThat(e.code()).isEqualTo("CONFIG_RANGE");
        assertThat(e).hasMessage(WHERE + ": version: expected a whole number from 1 to 1, got 2; restore the file");
    }

    // ----------------------------------------------------------------------------------------------- exemptions

    /// What a checkpoint with BF16 weights alone is refused for, or not: whether `o_proj` of layer 1 is exempt.
    private boolean exempt(ObjectNode config) throws IOException {
        Path model = Files.createTempDirectory(dir, "model");
        String layer = "model.layers.1.self_attn.o_proj.weight";
        QuantizedModel.write(
                TinyModel.of("llama").write(Files.createTempDirectory(dir, "source")),
                model,
                Files.createTempDirectory(dir, "plain"),
                name -> name.endsWith("_proj.weight") && !name.equals(layer),
                config.has("config_groups") ? QuantizedModel::int4 : QuantizedModel.fp8(128, 128, "_scale_inv", "F32"),
                config);
        try (ModelFiles files = ModelFiles.open(model)) {
            TensorExpectation.check(ModelConfig.read(files), files);
            return true;
        } catch (InvalidModelException e) {
            if (!e.code().equals("MODEL_QUANT_MISMATCH")) {
                throw e;
            }
            assertThat(e).hasMessageContaining(layer);
            return false;
        }
    }

    @ParameterizedTest
    @CsvSource({
        "model.layers.1.self_attn.o_proj, true",
        "model.layers.1.self_attn, false",
        "o_proj, false",
        "re:.*1.self_attn.o_proj, true",
        "re:.*layers\\.1.self_attn\\.o, true",
        "re:layers.1.self_attn.o_proj, false"
    })
    void ignoreListsShouldNameWholeModulesOrBeginnings(String entry, boolean expected) throws IOException {
        assertThat(exempt(QuantizedModel.int4Config("lm_head", entry))).isEqualTo(expected);
    }

    @ParameterizedTest
    @CsvSource({
        "model.layers.1.self_attn.o_proj, true",
        "layers.1.self_attn.o_proj, true",
        "1.self_attn.o_proj, true",
        "model.layers.1.self_attn.o, false",
        "layers.11, false",
        "self_attn.o, false"
    })
    void unconvertedModulesShouldBeNamedByPartsOfTheirPaths(String entry, boolean expected) throws IOException {
        ObjectNode config = QuantizedModel.fp8Config(128, 128);
        config.putArray("ignored_layers").add(entry);
        assertThat(exempt(config)).isEqualTo(expected);
    }

    @Test
    void expressionsThatTakeForeverShouldBeRefused() {
        ObjectNode config = QuantizedModel.int4Config("re:.*.*.*.*.*.*.*.*.*!");
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> exempt(config));
        assertThat(e.code()).isEqualTo("CONFIG_QUANTIZATION");
        assertThat(e).hasMessageContaining("expected expressions that are soon decided");
    }
}

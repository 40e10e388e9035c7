package millrace.engine.model;

import static millrace.engine.model.ModelConfigTest.object;
import static millrace.engine.model.ModelConfigTest.parse;
import static millrace.engine.model.ModelConfigTest.read;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import millrace.engine.InvalidModelException;
import millrace.engine.TinyModel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// One test per refusal of config.json; each pins code and message.
final class ModelConfigRefusalTest {
    private static void refused(String modelType, Consumer<ObjectNode> change, String code, String message) {
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> read(modelType, change));
        assertThat(e).as("refusal: " + message).isNotNull();
        assertThat(e.code()).isEqualTo(code);
        assertThat(e).hasMessage(message);
    }

    @Test
    void unknownArchitectureShouldBeRefusedWithTheListOfKnownOnes() {
        String known = "config.json: architectures: expected one of Glm4MoeForCausalLM, Glm4MoeLiteForCausalLM,"
                + " DeepseekV3ForCausalLM, KimiK25ForConditionalGeneration, GlmMoeDsaForCausalLM,"
                + " DeepseekV32ForCausalLM, Glm4ForCausalLM, LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, got ";
        refused(
                "llama",
                c -> c.putArray("architectures").add("KimiLinearForCausalLM"),
                "CONFIG_ARCHITECTURE",
                known + "\"KimiLinearForCausalLM\"; use a supported model");
        refused(
                "llama",
                c -> c.put("model_type", "mistral").remove("architectures"),
                "CONFIG_ARCHITECTURE",
                known + "none; use a supported model");
        refused(
                "llama",
                c -> c.put("model_type", "mistral"),
                "CONFIG_ARCHITECTURE",
                "config.json: model_type: expected llama with LlamaForCausalLM, got \"mistral\"; restore config.json");
    }

    @Test
    void wrapperWithoutTextConfigShouldBeRefusedAndTheReverse() {
        refused(
                "kimi_k2",
                c -> c.putArray("architectures").add("KimiK25ForConditionalGeneration"),
                "CONFIG_ARCHITECTURE",
                "config.json: text_config: expected an object, as KimiK25ForConditionalGeneration wraps a text model,"
                        + " got none; restore config.json");
        refused(
                "llama",
                c -> c.putObject("text_config").put("model_type", "llama"),
                "CONFIG_ARCHITECTURE",
                "config.json: text_config: expected none, got one; restore config.json");
    }

    @ParameterizedTest
    @CsvSource({"gptq", "awq", "bitsandbytes", "modelopt", "mxfp4"})
    void unknownQuantisationShouldBeRefusedByItsName(String method) {
        refused(
                "kimi_k2",
                c -> c.putObject("quantization_config").put("quant_method", method),
                "CONFIG_QUANTIZATION",
                "config.json.quantization_config: quant_method: expected compressed-tensors pack-quantized INT4"
                        + " (symmetric, groups of 32), FP8 e4m3 (blocks, channels or tensors), or millrace, got \"" + method
                        + "\"; use a checkpoint quantised so, or an unquantised one");
    }

    @ParameterizedTest
    @CsvSource({
        "hidden_act, gelu, silu",
        "scoring_func, softmax, sigmoid",
        "moe_router_activation_func, softmax, sigmoid",
        "topk_method, greedy, noaux_tc",
        "moe_router_dtype, bfloat16, float32"
    })
    void functionThatIsNotComputedShouldBeRefused(String key, String value, String supported) {
        refused(
                "glm4_moe",
                c -> c.put(key, value),
                "CONFIG_UNSUPPORTED",
                "config.json: " + key + ": expected " + supported + ", got \"" + value + "\"; use a supported model");
    }

    @ParameterizedTest
    @CsvSource({
        "qwen2, use_sliding_window, CONFIG_SLIDING_WINDOW, QWEN2",
        "llama, attention_bias, CONFIG_UNSUPPORTED, LLAMA",
        "llama, mlp_bias, CONFIG_UNSUPPORTED, LLAMA",
        "qwen3, attention_bias, CONFIG_UNSUPPORTED, QWEN3",
        "kimi_k2, attention_bias, CONFIG_UNSUPPORTED, DEEPSEEK_V3",
        "glm4_moe_lite, attention_bias, CONFIG_UNSUPPORTED, GLM4_MOE_LITE",
        "glm_moe_dsa, attention_bias, CONFIG_UNSUPPORTED, GLM_MOE_DSA",
        "deepseek_v32, attention_bias, CONFIG_UNSUPPORTED, DEEPSEEK_V32",
        "llama, use_qk_norm, CONFIG_UNSUPPORTED, LLAMA",
        "kimi_k2, use_qk_norm, CONFIG_UNSUPPORTED, DEEPSEEK_V3"
    })
    void flagThatIsNotComputedShouldBeRefused(String modelType, String key, String code, String family) {
        refused(
                modelType,
                c -> c.put(key, true),
                code,
                "config.json: " + key + ": expected false in a " + family + " model, got true; use a supported model");
    }

    @Test
    void windowedLayersShouldBeRefused() {
        refused(
                "qwen3",
                c -> c.putArray("layer_types").add("full_attention").add("sliding_attention"),
                "CONFIG_SLIDING_WINDOW",
                "config.json: layer_types: expected full_attention in every layer, got \"sliding_attention\";"
                        + " use a model without windowed layers");
    }

    @Test
    void expertsInADenseFamilyShouldBeRefused() {
        refused(
                "qwen3",
                c -> c.put("num_experts", 8),
                "CONFIG_UNSUPPORTED",
                "config.json: num_experts: expected none in a QWEN3 model, got one; restore config.json");
    }

    @ParameterizedTest
    @ValueSource(strings = {"linear", "dynamic", "longrope", "mrope", "proportional"})
    void unknownScalingShouldBeRefused(String type) {
        refused(
                "qwen3",
                c -> c.putObject("rope_scaling").put("type", type).put("factor", 2),
                "CONFIG_ROPE",
                "config.json.rope_scaling: rope_type: expected default, yarn or llama3, got \"" + type
                        + "\"; use a model with a supported scaling");
    }

    @Test
    void contradictoryRopeShouldBeRefused() {
        refused(
                "qwen3",
                c -> c.putObject("rope_scaling").put("factor", 2),
                "CONFIG_ROPE",
                "config.json.rope_scaling: rope_type: expected yarn or llama3 beside a factor, got none;"
                        + " restore config.json");
        refused(
                "qwen3",
                c -> c.putObject("rope_scaling").put("type", "yarn").put("rope_type", "llama3"),
                "CONFIG_ROPE",
                "config.json.rope_scaling: type: expected the same as rope_type, got two different values;"
                        + " restore config.json");
        refused(
                "llama",
                c -> ((ObjectNode) c.get("rope_scaling")).put("high_freq_factor", 0.5),
                "CONFIG_RANGE",
                "config.json.rope_scaling: high_freq_factor: expected more than low_freq_factor 1.0, got 0.5;"
                        + " restore the file");
        refused(
                "llama",
                c -> c.put("partial_rotary_factor", 0.5),
                "CONFIG_RANGE",
                "config.json: partial_rotary_factor: expected 1 in a LLAMA model, got 0.5; restore the file");
        refused(
                "glm4",
                c -> c.put("partial_rotary_factor", 0.1),
                "CONFIG_RANGE",
                "config.json: partial_rotary_factor: expected an even number of rotated dimensions, got 3;"
                        + " restore the file");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "num_hidden_layers; 0; a whole number from 1 to 1024",
        "num_hidden_layers; -1; a whole number from 1 to 1024",
        "hidden_size; 9223372036854775807; a whole number from 1 to 1048576",
        "vocab_size; 99999999999999999999; a whole number from 1 to 16777216",
        "num_attention_heads; 4097; a whole number from 1 to 4096",
        "num_key_value_heads; 9; a whole number from 1 to 8",
        "num_key_value_heads; 3; a divisor of num_attention_heads 8",
        "n_group; 3; groups of equal size, of two or more, from 16 experts",
        "n_group; 16; groups of equal size, of two or more, from 16 experts",
        "topk_group; 5; a whole number from 1 to 4",
        "num_experts_per_tok; 9; at most the experts of 2 groups",
        "num_experts_per_tok; 0; a whole number from 1 to 16",
        "first_k_dense_replace; 5; a whole number from 0 to 4",
        "n_shared_experts; 0; a whole number from 1 to 64",
        "rms_norm_eps; 0; a number from 1.0E-12 to 0.1",
        "rms_norm_eps; 1e300; a number from 1.0E-12 to 0.1",
        "rope_theta; -1; a number from 1.0001 to 1.0E15",
        "partial_rotary_factor; 1.5; a number from 0.001 to 1.0",
        "eos_token_id; 2048; a whole number from 0 to 2047",
        "eos_token_id; [1,-1]; a whole number from 0 to 2047"
    })
    void numberOutOfRangeShouldBeRefused(String key, String value, String expected) {
        InvalidModelException e = catchThrowableOfType(
                InvalidModelException.class,
                () -> read("glm4_moe", c -> c.setAll(object("{\"" + key + "\":" + value + "}"))));
        assertThat(e).isNotNull();
        assertThat(e.code()).isEqualTo("CONFIG_RANGE");
        assertThat(e.getMessage())
                .startsWith("config.json: " + key + ": expected " + expected + ", got ")
                .endsWith("; restore the file");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "hidden_size; \"128\"; a whole number",
        "hidden_size; 1.5; a whole number",
        "rms_norm_eps; true; a number",
        "tie_word_embeddings; 1; true or false",
        "hidden_act; 7; a string",
        "rope_scaling; []; an object",
        "architectures; \"x\"; a list of strings",
        "layer_types; [1]; a list of strings"
    })
    void valueOfAnotherKindShouldBeRefused(String key, String value, String expected) {
        refused(
                "glm4_moe",
                c -> c.setAll(object("{\"" + key + "\":" + value + "}")),
                "CONFIG_TYPE",
                "config.json: " + key + ": expected " + expected + ", got another kind of value; restore the file");
    }

    @ParameterizedTest
    @ValueSource(strings = {"vocab_size", "rms_norm_eps", "max_position_embeddings", "rope_theta", "n_group",
        "routed_scaling_factor", "first_k_dense_replace", "kv_lora_rank", "model_type"})
    void missingValueShouldBeRefused(String key) {
        refused(
                "kimi_k2",
                c -> c.remove(key),
                "CONFIG_MISSING",
                "config.json: " + key + ": expected a value, got none; restore the file");
    }

    @Test
    void headsThatDoNotDivideShouldBeRefused() {
        refused(
                "llama",
                c -> c.put("hidden_size", 130).remove("head_dim"),
                "CONFIG_RANGE",
                "config.json: num_attention_heads: expected a divisor of hidden_size 130, or a head_dim, got 4;"
                        + " restore the file");
    }

    @Test
    void contradictoryAliasesShouldBeRefused() {
        refused(
                "glm4_moe",
                c -> c.put("num_experts", 32),
                "CONFIG_RANGE",
                "config.json: num_experts: expected the same as n_routed_experts, got another value; restore the file");
    }

    @Test
    void kindsOfTooFewLayersShouldBeRefused() {
        refused(
                "glm4_moe",
                c -> c.putArray("mlp_layer_types").add("dense"),
                "CONFIG_RANGE",
                "config.json: mlp_layer_types: expected dense or sparse for each of 4 layers, got 1 values [\"dense\"];"
                        + " restore config.json");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "[]", "7", "{\"a\":1,\"a\":1}", "{} x", "{\"a\":NaN}", "{'a':1}"})
    void fileThatIsNotOneStrictObjectShouldBeRefused(String json) {
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> parse(json, null));
        assertThat(e.code()).isEqualTo("CONFIG_JSON");
        assertThat(e.getMessage()).startsWith("config.json: expected ").endsWith("; restore the file");
    }

    @Test
    void deepNestingShouldBeRefused() {
        String deep = "{\"a\":" + "[".repeat(10_000) + "]".repeat(10_000) + "}";
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> parse(deep, null));
        assertThat(e.code()).isEqualTo("CONFIG_JSON");
    }

    @Test
    void generationConfigShouldBeNamedInItsRefusals() {
        String config = TinyModel.of("qwen3").config().toString();
        InvalidModelException e =
                catchThrowableOfType(InvalidModelException.class, () -> parse(config, "{\"eos_token_id\":\"x\"}"));
        assertThat(e).hasMessage(
                "generation_config.json: eos_token_id: expected a whole number, got another kind of value;"
                        + " restore the file");
    }

    @Test
    void changedConfigShouldNeverEscapeAsAnotherError() {
        for (String type : List.of("glm4_moe", "kimi_k2", "glm_moe_dsa", "llama")) {
            ObjectNode sound = TinyModel.of(type).config();
            List<String> keys = sound.propertyStream().map(Map.Entry::getKey).toList();
            List<String> values =
                    List.of("null", "0", "-1", "1", "3", "1e9", "2147483648", "\"x\"", "[]", "{}", "true");
            for (int seed : IntStream.range(0, 1500).toArray()) {
                var random = new SplittableRandom(seed);
                ObjectNode config = sound.deepCopy();
                for (int n = random.nextInt(1, 4); n > 0; n--) {
                    String value = values.get(random.nextInt(values.size()));
                    config.setAll(object("{\"" + keys.get(random.nextInt(keys.size())) + "\":" + value + "}"));
                }
                try {
                    read(config);
                } catch (InvalidModelException e) {
                    assertThat(e.code()).startsWith("CONFIG_");
                } catch (RuntimeException | Error e) {
                    throw new AssertionError(type + " seed " + seed + ": " + config, e);
                }
            }
        }
    }
}

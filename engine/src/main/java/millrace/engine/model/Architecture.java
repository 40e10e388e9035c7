package millrace.engine.model;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import millrace.engine.weights.Text;

/// An architecture by its name in config.json: which body it has, and where in the checkpoint that body is.
///
/// @param wrapper whether the text model's config is in `text_config`, beside that of a vision tower
record Architecture(String name, String modelType, ModelFamily family, boolean wrapper) {
    private record Known(String name, Set<String> modelTypes, ModelFamily family, boolean wrapper) {}

    private static final List<Known> KNOWN = List.of(
            new Known("Glm4MoeForCausalLM", Set.of("glm4_moe"), ModelFamily.GLM4_MOE, false),
            new Known("Glm4MoeLiteForCausalLM", Set.of("glm4_moe_lite"), ModelFamily.GLM4_MOE_LITE, false),
            new Known("DeepseekV3ForCausalLM", Set.of("deepseek_v3", "kimi_k2"), ModelFamily.DEEPSEEK_V3, false),
            new Known(
                    "KimiK25ForConditionalGeneration",
                    Set.of("kimi_k2", "deepseek_v3"),
                    ModelFamily.DEEPSEEK_V3,
                    true),
            new Known("GlmMoeDsaForCausalLM", Set.of("glm_moe_dsa"), ModelFamily.GLM_MOE_DSA, false),
            new Known("DeepseekV32ForCausalLM", Set.of("deepseek_v32"), ModelFamily.DEEPSEEK_V32, false),
            new Known("Glm4ForCausalLM", Set.of("glm4"), ModelFamily.GLM4, false),
            new Known("LlamaForCausalLM", Set.of("llama"), ModelFamily.LLAMA, false),
            new Known("Qwen2ForCausalLM", Set.of("qwen2"), ModelFamily.QWEN2, false),
            new Known("Qwen3ForCausalLM", Set.of("qwen3"), ModelFamily.QWEN3, false));

    static Architecture of(ConfigSection top, ConfigSection text) {
        List<String> names = top.texts("architectures");
        String name = names.isEmpty() ? ofModelType(top) : names.getFirst();
        Known known = KNOWN.stream()
                .filter(k -> k.name().equals(name))
                .findFirst()
                .orElseThrow(() -> top.error(
                        "CONFIG_ARCHITECTURE",
                        "architectures",
                        "one of " + KNOWN.stream().map(Known::name).collect(Collectors.joining(", ")),
                        name.isEmpty() ? "none" : Text.quote(name),
                        "use a supported model"));
        String modelType = text.text("model_type");
        if (!known.modelTypes().contains(modelType)) {
            throw text.error(
                    "CONFIG_ARCHITECTURE",
                    "model_type",
                    String.join(" or ", known.modelTypes().stream().sorted().toList()) + " with " + name,
                    Text.quote(modelType),
                    "restore config.json");
        }
        return new Architecture(name, modelType, known.family(), known.wrapper());
    }

    /// Without `architectures`, as configs written by hand are: the one that the `model_type` names, or nothing.
    private static String ofModelType(ConfigSection top) {
        String modelType = top.textOr("model_type", "");
        return KNOWN.stream()
                .filter(k -> !k.wrapper() && k.modelTypes().contains(modelType))
                .map(Known::name)
                .findFirst()
                .orElse("");
    }

    String tensorPrefix() {
        return wrapper ? "language_model.model." : "model.";
    }

    String lmHeadName() {
        return wrapper ? "language_model.lm_head.weight" : "lm_head.weight";
    }
}

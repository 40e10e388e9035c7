package millrace.engine.model;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import millrace.engine.InvalidModelException;
import millrace.engine.checkpoint.Exemptions;
import millrace.engine.checkpoint.Quantization;
import millrace.engine.checkpoint.Quantization.Scheme;
import millrace.engine.format.Fp8Panel;
import millrace.engine.format.Int4Panel;
import millrace.engine.weights.Text;
import org.jspecify.annotations.Nullable;

/// Reads `quantization_config`. What is not one of the known schemes in every detail is refused by its name.
final class QuantizationReader {
    private static final String KEY = "quantization_config";
    private static final String SUPPORTED = "compressed-tensors pack-quantized INT4 (symmetric, groups of 32), FP8 e4m3"
            + " (blocks, channels or tensors), or millrace";

    private final ConfigSection config;
    private final String prefix;

    private QuantizationReader(ConfigSection config, String prefix) {
        this.config = config;
        this.prefix = prefix;
    }

    /// @param prefix what names of a wrapper begin with beyond those of its text model, maybe empty
    static Quantization read(ConfigSection top, ConfigSection text, String prefix) {
        ConfigSection inner = text.section(KEY);
        ConfigSection config = inner == null ? top.section(KEY) : inner;
        return config == null ? Quantization.NONE : new QuantizationReader(config, prefix).read();
    }

    private Quantization read() {
        String method = config.textOr("quant_method", "without a quant_method");
        return switch (method) {
            case "millrace" -> {
                config.integer("version", 1, 1);
                yield new Quantization(Scheme.MILLRACE, 0, 0, "", Exemptions.NONE, prefix);
            }
            case "fp8" -> fp8();
            case "compressed-tensors", "compressed_tensors" -> compressed();
            default -> throw refused("quant_method", SUPPORTED, Text.quote(method));
        };
    }

    /// The scheme of DeepSeek V3: every linear layer but those that are named, the head and the routers.
    private Quantization fp8() {
        require("fmt", "e4m3");
        // A name may be a part of a path, as the libraries take it.
        Exemptions exempt = exemptions(List.of("modules_to_not_convert", "ignored_layers"), true, Set.of("lm_head"));
        List<Integer> block = config.integers("weight_block_size", 1, 1 << 20);
        if (block.isEmpty()) {
            return new Quantization(Scheme.FP8_TENSOR, 0, 0, "_scale", exempt, prefix);
        }
        return blocks(config, "weight_block_size", block, "_scale_inv", exempt);
    }

    private Quantization blocks(
            ConfigSection section, String key, List<Integer> block, String suffix, Exemptions exempt) {
        if (block.size() != 2 || block.get(1) % Fp8Panel.GROUP != 0) {
            throw refused(section, key, "[rows, cols] with cols a multiple of 128", block.toString());
        }
        return new Quantization(Scheme.FP8_BLOCK, block.get(0), block.get(1), suffix, exempt, prefix);
    }

    private Quantization compressed() {
        for (String key : List.of("kv_cache_scheme", "sparsity_config", "transform_config")) {
            if (config.has(key) && !config.node().get(key).isEmpty()) {
                throw refused(key, "none", "one");
            }
        }
        ConfigSection groups = config.section("config_groups");
        if (groups == null || groups.node().size() != 1) {
            throw refused("config_groups", "one group", groups == null ? "none" : groups.node().size() + "");
        }
        ConfigSection group = groups.section(groups.node().fieldNames().next());
        ConfigSection weights = group == null ? null : group.section("weights");
        if (group == null || weights == null) {
            throw refused("config_groups", "a group with weights", "none");
        }
        List<String> targets = group.texts("targets");
        if (!targets.equals(List.of("Linear"))) {
            throw refused(group, "targets", "[Linear]", targets.toString());
        }
        Exemptions exempt = exemptions(List.of("ignore"), false, Set.of());
        if (weights.flag("dynamic", false)) {
            throw refused(weights, "dynamic", "false", "true");
        }
        if (!weights.flag("symmetric", true)) {
            throw refused(weights, "symmetric", "true", "false");
        }
        if (weights.has("actorder") && !weights.node().get("actorder").asText().equals("false")) {
            throw refused(weights, "actorder", "none", weights.node().get("actorder").asText());
        }
        String format = group.textOr("format", config.textOr("format", "none"));
        return switch (format) {
            case "pack-quantized" -> int4(weights, exempt);
            case "float-quantized", "naive-quantized" -> floats(weights, exempt);
            default -> throw refused("format", "pack-quantized or float-quantized", Text.quote(format));
        };
    }

    private Quantization int4(ConfigSection weights, Exemptions exempt) {
        if (weights.integer("num_bits", 1, 64) != 4) {
            throw refused(weights, "num_bits", "4", weights.integer("num_bits", 1, 64) + "");
        }
        requireIn(weights, "type", "int");
        requireIn(weights, "strategy", "group");
        int size = weights.integer("group_size", -1, 1 << 20);
        if (size != Int4Panel.GROUP) {
            throw refused(weights, "group_size", "32", size + "");
        }
        return new Quantization(Scheme.INT4, 0, 0, "", exempt, prefix);
    }

    private Quantization floats(ConfigSection weights, Exemptions exempt) {
        if (weights.integer("num_bits", 1, 64) != 8) {
            throw refused(weights, "num_bits", "8", weights.integer("num_bits", 1, 64) + "");
        }
        requireIn(weights, "type", "float");
        String strategy = weights.textOr("strategy", "none");
        return switch (strategy) {
            case "channel" -> new Quantization(Scheme.FP8_CHANNEL, 0, 0, "_scale", exempt, prefix);
            case "tensor" -> new Quantization(Scheme.FP8_TENSOR, 0, 0, "_scale", exempt, prefix);
            case "block" ->
                blocks(weights, "block_structure", weights.integers("block_structure", 1, 1 << 20), "_scale", exempt);
            default -> throw refused(weights, "strategy", "channel, tensor or block", Text.quote(strategy));
        };
    }

    private void require(String key, String supported) {
        String value = config.textOr(key, supported);
        if (!value.equals(supported)) {
            throw refused(key, supported, Text.quote(value));
        }
    }

    private static void requireIn(ConfigSection section, String key, String supported) {
        String value = section.textOr(key, "none");
        if (!value.equals(supported)) {
            throw refused(section, key, supported, Text.quote(value));
        }
    }

    /// @param always names that are exempt without being listed
    private Exemptions exemptions(List<String> keys, boolean parts, Set<String> always) {
        var names = new HashSet<String>(always);
        var expressions = new ArrayList<Pattern>();
        for (String key : keys) {
            for (String entry : config.texts(key)) {
                if (entry.startsWith("re:")) {
                    expressions.add(regex(key, entry.substring(3)));
                } else {
                    names.add(entry);
                }
            }
        }
        return new Exemptions(names, parts, expressions);
    }

    private Pattern regex(String key, String expression) {
        try {
            return Pattern.compile(expression);
        } catch (PatternSyntaxException e) {
            throw refused(key, "regular expressions", Text.quote(expression));
        }
    }

    private InvalidModelException refused(String key, String expected, @Nullable String got) {
        return refused(config, key, expected, String.valueOf(got));
    }

    private static InvalidModelException refused(ConfigSection section, String key, String expected, String got) {
        return section.error(
                "CONFIG_QUANTIZATION", key, expected, got, "use a checkpoint quantised so, or an unquantised one");
    }
}

package millrace.engine.checkpoint;

/// How a checkpoint's linear layers are quantised, as its config.json says.
///
/// @param scheme of the layers that are not exempt
/// @param blockRows rows that share a scale, only in [Scheme#FP8_BLOCK]
/// @param blockCols columns that share one
/// @param scaleSuffix last part of the name of an FP8 layer's scales
/// @param exempt modules that are stored plainly
/// @param tensorPrefix what a wrapper's names begin with beyond those of its text model; empty if there is no wrapper
public record Quantization(
        Scheme scheme, int blockRows, int blockCols, String scaleSuffix, Exemptions exempt, String tensorPrefix) {
    public static final Quantization NONE = new Quantization(Scheme.NONE, 0, 0, "", Exemptions.NONE, "");

    /// A kind of quantisation.
    public enum Scheme {
        NONE,
        /// compressed-tensors `pack-quantized`, 4 bits, groups of 32, symmetric.
        INT4,
        /// FP8 with a scale for each block.
        FP8_BLOCK,
        /// FP8 with a scale for each row.
        FP8_CHANNEL,
        /// FP8 with one scale.
        FP8_TENSOR,
        /// This engine's own: each tensor says its format.
        MILLRACE
    }

    /// The scheme of a linear layer.
    ///
    /// @param module the weight's name without `.weight`
    Scheme of(String module) {
        return scheme == Scheme.NONE || scheme == Scheme.MILLRACE || !isExempt(module) ? scheme : Scheme.NONE;
    }

    /// Lists may name modules with a wrapper's prefix or without.
    private boolean isExempt(String module) {
        String inner = module.startsWith(tensorPrefix) ? module.substring(tensorPrefix.length()) : module;
        return exempt.has(module) || !inner.equals(module) && exempt.has(inner);
    }
}

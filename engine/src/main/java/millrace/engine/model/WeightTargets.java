package millrace.engine.model;

import millrace.engine.EngineConfig;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.format.WeightFormat;
import org.jspecify.annotations.Nullable;

/// What weights are converted to, by their role; weights that are stored quantised stay as they are.
///
/// | asked for | linear layers, experts | embeddings, output heads, indexer | router, weights of index heads | up-projection of latents |
/// |-----------|-----------|-----------|--------|-----------|
/// | `stored`  | as stored | as stored | stored | as stored |
/// | `bf16`    | BF16      | BF16      | BF16   | BF16      |
/// | `packed`  | packed    | packed    | packed | packed    |
/// | `int8`    | INT8      | INT8      | stored | packed    |
/// | `int4`    | INT4      | INT8      | stored | packed    |
///
/// The router decides which experts a token meets, the weights of index heads which positions it attends to, and the
/// up-projection is cut by heads and turned: rounding one of them costs more than its bytes are worth. Embeddings and heads
/// stay in 8 bits, since every token passes through both, and so do queries and keys of the indexer, which choose.
///
/// @param format of linear layers, or null to keep all
public record WeightTargets(@Nullable WeightFormat format) {
    static final String INDEX_WEIGHTS = "weights_proj.weight";
    private static final String INDEXER = ".indexer.";

    public static final WeightTargets STORED = new WeightTargets(null);

    /// The targets of a configured id.
    public static WeightTargets of(String id) {
        if (!EngineConfig.WEIGHT_FORMATS.contains(id)) {
            throw new IllegalArgumentException("weight format: expected one of "
                    + String.join(", ", EngineConfig.WEIGHT_FORMATS) + ", got \"" + id + "\"");
        }
        return new WeightTargets(WeightFormat.named(id));
    }

    /// What a tensor is to become, or null to keep it.
    public @Nullable WeightFormat of(LinearTensor tensor) {
        WeightFormat wanted = format;
        if (wanted == null || tensor.quantised() || !wanted.grouped()) {
            return tensor.quantised() ? null : wanted;
        }
        String name = tensor.name();
        if (name.endsWith(".mlp.gate.weight") || name.endsWith(INDEXER + INDEX_WEIGHTS)) {
            return null;
        }
        if (name.endsWith(".kv_b_proj.weight")) {
            return WeightFormat.PACKED;
        }
        boolean finer = name.endsWith(DraftConfig.EMBEDDING)
                || name.endsWith("lm_head.weight")
                || name.endsWith(DraftConfig.HEAD)
                || name.contains(INDEXER);
        return finer ? WeightFormat.INT8 : wanted;
    }
}

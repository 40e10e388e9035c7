package millrace.engine.model;

/// A body of mathematics that several architectures share: which tensors a layer has and what is done with them.
public enum ModelFamily {
    /// GLM-4.5, 4.5-Air, 4.6, 4.7: grouped-query attention, partial half-split rotary, sigmoid-routed experts.
    GLM4_MOE,
    /// GLM-4.7-Flash: latent attention with values wider than the un-rotated keys, sigmoid-routed experts.
    GLM4_MOE_LITE,
    /// DeepSeek-V3 and Kimi K2 to K2.7: latent attention, sigmoid-routed experts.
    DEEPSEEK_V3,
    /// DeepSeek-V3.2: as [#DEEPSEEK_V3], with sparse attention whose indexer rotates half-split.
    DEEPSEEK_V32,
    /// GLM-5 to 5.3: latent attention with values wider than the un-rotated keys, sparse attention, sigmoid-routed experts.
    GLM_MOE_DSA,
    /// GLM-4-0414: dense, four norms a layer, fused gate and up projection, interleaved partial rotary.
    GLM4,
    /// Llama 3.x: dense, no biases.
    LLAMA,
    /// Qwen2 and 2.5: dense, biases on queries, keys and values.
    QWEN2,
    /// Qwen3: dense, queries and keys normed per head.
    QWEN3;

    /// Whether attention runs over a compressed latent (MLA) rather than over grouped heads.
    public boolean latentAttention() {
        return switch (this) {
            case GLM4_MOE_LITE, DEEPSEEK_V3, DEEPSEEK_V32, GLM_MOE_DSA -> true;
            case GLM4_MOE, GLM4, LLAMA, QWEN2, QWEN3 -> false;
        };
    }

    /// Whether an indexer chooses the positions that are attended to.
    public boolean sparseAttention() {
        return this == DEEPSEEK_V32 || this == GLM_MOE_DSA;
    }

    /// Whether further drafted tokens start from the hidden state behind the draft layer's last norm, as GLM's layers were
    /// trained to; DeepSeek's start from that before it.
    boolean draftsFromNormed() {
        return this == GLM4_MOE || this == GLM4_MOE_LITE || this == GLM_MOE_DSA;
    }

    /// Whether layers may be mixtures of experts, and a checkpoint may carry draft ("MTP") layers after the last one.
    public boolean mixtureOfExperts() {
        return this == GLM4_MOE || latentAttention();
    }
}

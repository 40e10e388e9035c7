package millrace.engine.model;

import java.util.List;
import millrace.engine.kernel.Experts;
import millrace.engine.kernel.Matrix;
import org.jspecify.annotations.Nullable;

/// The tensors of one layer, by role. Norm weights and biases are F32.
///
/// @param inputNorm before attention
/// @param attentionOutputNorm after attention, before the residual is added; only in [ModelFamily#GLM4]
/// @param feedForwardNorm before the feed-forward part (`post_attention_layernorm` in every family)
/// @param feedForwardOutputNorm after it; only in [ModelFamily#GLM4]
record LayerWeights(
        float[] inputNorm,
        Attention attention,
        float @Nullable [] attentionOutputNorm,
        float[] feedForwardNorm,
        FeedForward feedForward,
        float @Nullable [] feedForwardOutputNorm) {

    sealed interface Attention {}

    /// Grouped-query attention. Biases and per-head norms are present by family.
    record Grouped(
            Matrix q,
            Matrix k,
            Matrix v,
            float @Nullable [] qBias,
            float @Nullable [] kBias,
            float @Nullable [] vBias,
            float @Nullable [] qNorm,
            float @Nullable [] kNorm,
            Matrix output)
            implements Attention {}

    /// Latent attention, absorbed: per head `keyUp = W_UKᵀ` `[rank][nope]` takes a query into the latent space, and
    /// `valueUp = W_UV` `[vHeadDim][rank]` takes a mixture of latents out of it.
    ///
    /// @param queryDown null if queries are projected directly by `query`
    /// @param query from the query latent, or from the hidden state
    record Latent(
            @Nullable Matrix queryDown,
            float @Nullable [] queryNorm,
            Matrix query,
            Matrix keyValueDown,
            float[] latentNorm,
            List<Matrix> keyUp,
            List<Matrix> valueUp,
            Matrix output,
            @Nullable Indexer indexer)
            implements Attention {}

    /// What chooses the positions that a query attends to.
    ///
    /// @param query `[heads · headDim][qLoraRank]`, from the normed query latent
    /// @param key `[headDim][hidden]`
    /// @param keyNorm of the layer norm of a key
    /// @param keyNormBias of the same
    /// @param weights `[heads][hidden]`, of the heads of a query
    record Indexer(Matrix query, Matrix key, float[] keyNorm, float[] keyNormBias, Matrix weights) {}

    /// The layer that drafts tokens ahead.
    ///
    /// @param embeddingNorm of the embedding of the next token (`enorm`)
    /// @param hiddenNorm of the hidden state (`hnorm`)
    /// @param project `[hidden][2 · hidden]`, from both, the embedding first (`eh_proj`)
    /// @param headNorm before the output projection (`shared_head.norm`)
    /// @param embedding its own or the model's
    /// @param head its own or the model's
    record Draft(
            float[] embeddingNorm,
            float[] hiddenNorm,
            Matrix project,
            LayerWeights layer,
            float[] headNorm,
            Matrix embedding,
            Matrix head) {}

    sealed interface FeedForward {}

    /// `down(silu(gate(x)) ⊙ up(x))`.
    record Mlp(Matrix gate, Matrix up, Matrix down) implements FeedForward {}

    /// Routed experts and one shared one.
    ///
    /// @param router `[experts][hidden]`
    /// @param correctionBias F32 as stored
    record Mixture(Matrix router, float[] correctionBias, Experts gate, Experts up, Experts down, Mlp shared)
            implements FeedForward {}
}

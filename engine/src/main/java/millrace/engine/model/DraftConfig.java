package millrace.engine.model;

/// The layer that drafts tokens ahead ("MTP", "nextn"), which stands behind the last layer of the model: a whole layer of the
/// family, a mixture of experts, with an indexer of its own where the family has one.
///
/// @param ownEmbedding whether it has an embedding of its own, else that of the model
/// @param ownHead whether it has an output projection of its own, else that of the model
/// @param carriesNormed whether a further draft starts from the hidden state behind the draft layer's last norm (GLM), else
///        from that before it (DeepSeek)
public record DraftConfig(boolean ownEmbedding, boolean ownHead, boolean carriesNormed) {
    static final String EMBEDDING = "embed_tokens.weight";
    static final String EMBEDDING_NORM = "enorm.weight";
    static final String HIDDEN_NORM = "hnorm.weight";
    static final String PROJECTION = "eh_proj.weight";
    static final String HEAD_NORM = "shared_head.norm.weight";
    static final String HEAD = "shared_head.head.weight";
}

package millrace.engine.model;

/// The layer that drafts tokens ahead ("MTP", "nextn"), which stands behind the last layer of the model: a whole layer of the
/// family, a mixture of experts, with an indexer of its own where the family has one.
///
/// @param ownEmbedding whether it has an embedding of its own, else that of the model
/// @param ownHead whether it has an output projection of its own, else that of the model
/// @param carriesNormed whether a further draft starts from the hidden state behind the draft layer's last norm (GLM), else
///        from that before it (DeepSeek)
public record DraftConfig(boolean ownEmbedding, boolean ownHead, boolean carriesNormed) {}

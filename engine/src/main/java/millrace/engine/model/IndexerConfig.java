package millrace.engine.model;

import java.util.List;

/// Dimensions of the indexer of sparse attention, which chooses the positions that a query attends to.
///
/// @param topK the most positions of a query, not more than the model's context; a context within it is attended to as a whole
/// @param heads query heads
/// @param headDim dimensions of an index query head, and of the one key that all heads share
/// @param interleaved whether the rotated dimensions, the first of a head, are in pairs (2i, 2i + 1), else (i, i + r / 2)
/// @param full of each layer whether it has an indexer of its own; else it takes the positions of the nearest layer before it
///        that has
/// @param shareAcrossDrafts whether further drafted tokens attend to the positions of the first
public record IndexerConfig(
        int topK, int heads, int headDim, boolean interleaved, List<Boolean> full, boolean shareAcrossDrafts) {
    /// Epsilon of the norm of index keys.
    public static final float KEY_NORM_EPS = 1e-6f;

    public IndexerConfig {
        if (topK < 1 || heads < 1 || headDim < 2 || full.isEmpty() || !full.getFirst()) {
            throw new IllegalArgumentException(
                    "indexer: " + topK + " positions, " + heads + " heads of " + headDim + ", layers " + full);
        }
        full = List.copyOf(full);
    }

    /// Layers that have an indexer of their own.
    public int fullLayers() {
        return fullBefore(full.size());
    }

    /// How many of the layers before this one have an indexer of their own.
    public int fullBefore(int layer) {
        return (int) full.subList(0, layer).stream().filter(own -> own).count();
    }
}

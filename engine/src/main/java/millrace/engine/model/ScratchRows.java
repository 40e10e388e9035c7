package millrace.engine.model;

/// Bytes of the rows that a [Transformer] holds between its operations, reckoned before there is one.
public final class ScratchRows {
    private ScratchRows() {}

    /// Of a transformer of these limits.
    public static long bytes(ModelConfig config, int maxRows, int maxLogitRows) {
        long hidden = config.hiddenSize();
        int rotary = new RotaryEmbedding(config.rope()).rotaryDim();
        long perRow = 3 * hidden + rotary + attentionFloats(config) + feedForwardFloats(config);
        if (config.draft() != null) {
            perRow += 3 * hidden;
            maxLogitRows += (int) (maxLogitRows * hidden / config.vocabSize());
        }
        if (config.indexer() != null) {
            perRow += Indexer.perRow(config.indexer());
        }
        return Float.BYTES * (maxRows * perRow + (long) maxLogitRows * config.vocabSize());
    }

    private static long attentionFloats(ModelConfig config) {
        long heads = config.numAttentionHeads();
        MlaConfig mla = config.mla();
        if (mla == null) {
            return 2L * config.headDim() * (heads + config.numKeyValueHeads());
        }
        long perHead = mla.qkHeadDim() + 2L * mla.kvLoraRank() + mla.vHeadDim();
        return mla.qLoraRank() + heads * perHead + mla.kvLoraRank() + mla.qkRopeHeadDim();
    }

    private static long feedForwardFloats(ModelConfig config) {
        long dense = 2L * config.intermediateSize();
        MoeConfig moe = config.moe();
        if (moe == null) {
            return dense;
        }
        long perExpert = 2L * (config.hiddenSize() + moe.moeIntermediateSize());
        long shared = 2L * moe.nSharedExperts() * moe.moeIntermediateSize() + config.hiddenSize();
        return dense + moe.nRoutedExperts() + moe.numExpertsPerTok() * perExpert + shared;
    }
}

package millrace.engine;

import java.io.IOException;
import java.nio.file.Path;
import millrace.engine.weights.RandomModel;

/// Checkpoints of random weights in real sizes, to measure and to try out with; they compute nonsense at full cost.
public final class DeveloperModels {
    private static final long MAX_SHARD_BYTES = 4L << 30;

    private DeveloperModels() {}

    /// Sizes of a Llama model, named as in config.json. Embedding and output projection are one tensor.
    ///
    /// @param vocabSize at least 265: 256 bytes and 9 special tokens
    public record LlamaShape(
            int hiddenSize,
            int numHiddenLayers,
            int numAttentionHeads,
            int numKeyValueHeads,
            int intermediateSize,
            int vocabSize,
            int maxPositionEmbeddings) {

        /// About 1.04e9 parameters, 2.1 GB.
        public static LlamaShape oneBillion() {
            return new LlamaShape(2048, 16, 32, 8, 8192, 32_000, 8192);
        }
    }

    /// Writes config.json, tokenizer and BF16 weights into a directory that is empty or not there yet.
    ///
    /// @param seed equal seeds and shapes give equal files
    /// @throws IOException if the directory has files, or cannot be written
    public static void writeRandomLlama(Path dir, long seed, LlamaShape shape) throws IOException {
        writeRandomLlama(dir, seed, shape, MAX_SHARD_BYTES);
    }

    /// As above, in shards of at most so many bytes.
    public static void writeRandomLlama(Path dir, long seed, LlamaShape shape, long maxShardBytes) throws IOException {
        RandomModel.write(
                dir,
                seed,
                new RandomModel.Shape(
                        shape.hiddenSize(),
                        shape.numHiddenLayers(),
                        shape.numAttentionHeads(),
                        shape.numKeyValueHeads(),
                        shape.intermediateSize(),
                        shape.vocabSize(),
                        shape.maxPositionEmbeddings()),
                maxShardBytes);
    }
}

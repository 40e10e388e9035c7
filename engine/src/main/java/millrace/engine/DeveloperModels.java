package millrace.engine;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.engine.model.DraftConfig;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.TensorExpectation;
import millrace.engine.weights.RandomModel;

/// Checkpoints of random weights in real sizes, to measure and to try out with; they compute nonsense at full cost.
public final class DeveloperModels {
    private static final long MAX_SHARD_BYTES = 4L << 30;
    private static final String PREFIX = "random:";
    private static final Pattern SIZE = Pattern.compile("(\\d{1,6}(?:\\.\\d{1,3})?)([kmb])");
    private static final Pattern LAYERS = Pattern.compile("(\\d{1,3})l");

    private DeveloperModels() {}

    /// A random model by its name: `random:ARCH:PARAMS`, a family's form scaled to a number of parameters; or
    /// `random:GEOMETRY:LAYERSl`, the very layers of a published model, fewer of them.
    ///
    /// @param architecture one of [#architectures], or of [#geometries]
    /// @param parameters about how many it will have; 0 for a geometry
    /// @param layers of a geometry, else 0
    public record RandomSpec(String architecture, long parameters, int layers) {
        /// Whether a model argument asks for a random model.
        public static boolean isRandom(String name) {
            return name.startsWith(PREFIX);
        }

        /// @throws IllegalArgumentException for an unknown architecture or a number that is none
        public static RandomSpec parse(String name) {
            String[] parts = name.split(":", -1);
            Matcher layers = LAYERS.matcher(parts.length == 3 ? parts[2] : "");
            if (isRandom(name) && layers.matches()) {
                return checked(new RandomSpec(parts[1], 0, Integer.parseInt(layers.group(1))));
            }
            Matcher size = SIZE.matcher(parts.length == 3 ? parts[2].toLowerCase(Locale.ROOT) : "");
            if (!isRandom(name) || !size.matches()) {
                throw new IllegalArgumentException(
                        "random model: expected random:ARCH:PARAMS, for example random:llama:1b or random:kimi_k2:300m, got \""
                                + name + "\"");
            }
            double unit = switch (size.group(2)) {
                case "k" -> 1e3;
                case "m" -> 1e6;
                default -> 1e9;
            };
            return checked(new RandomSpec(parts[1], Math.round(Double.parseDouble(size.group(1)) * unit), 0));
        }

        private static RandomSpec checked(RandomSpec spec) {
            spec.config();
            return spec;
        }

        private ObjectNode config() {
            return layers > 0 ? PublishedShapes.config(architecture, layers) : RandomShapes.config(architecture, parameters);
        }
    }

    /// What a random model takes.
    ///
    /// @param parameters that it has, without a draft layer
    /// @param bytes of its weights in files, a draft layer included
    public record RandomSize(long parameters, long bytes) {}

    /// How large a random model will be.
    public static RandomSize size(RandomSpec spec) {
        ObjectNode config = spec.config();
        return new RandomSize(
                ModelInspection.parameters(model(config)),
                tensors(config).stream().mapToLong(RandomModel.Tensor::bytes).sum());
    }

    /// The architectures that a random model can have, by `model_type`.
    public static List<String> architectures() {
        return RandomShapes.ARCHITECTURES;
    }

    /// The published models whose layers a random model can have.
    public static List<String> geometries() {
        return PublishedShapes.NAMES;
    }

    /// Writes config.json, tokenizer and BF16 weights into a directory that is empty or not there yet.
    ///
    /// @param seed equal seeds and specs give equal files
    /// @return the parameters that it has, without a draft layer
    /// @throws IOException if the directory has files, or cannot be written
    public static long writeRandom(Path dir, long seed, RandomSpec spec) throws IOException {
        return write(dir, seed, spec.config(), MAX_SHARD_BYTES);
    }

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

        /// About 1.04e9 parameters, 2.1 GB; `random:llama:1b` has the same sizes.
        public static LlamaShape oneBillion() {
            return new LlamaShape(2048, 16, 32, 8, 8192, 32_000, 8192);
        }
    }

    /// As [#writeRandom] for a shape of one's own.
    public static void writeRandomLlama(Path dir, long seed, LlamaShape shape) throws IOException {
        writeRandomLlama(dir, seed, shape, MAX_SHARD_BYTES);
    }

    /// As above, in shards of at most so many bytes.
    public static void writeRandomLlama(Path dir, long seed, LlamaShape shape, long maxShardBytes) throws IOException {
        if (shape.hiddenSize() % shape.numAttentionHeads() != 0) {
            throw new IllegalArgumentException("hidden size: expected a multiple of the heads "
                    + shape.numAttentionHeads() + ", got " + shape.hiddenSize());
        }
        ObjectNode config = RandomShapes.llamaConfig(
                shape.hiddenSize(),
                shape.numHiddenLayers(),
                shape.numAttentionHeads(),
                shape.numKeyValueHeads(),
                shape.intermediateSize(),
                shape.vocabSize(),
                shape.maxPositionEmbeddings());
        write(dir, seed, config, maxShardBytes);
    }

    private static long write(Path dir, long seed, ObjectNode config, long maxShardBytes) throws IOException {
        RandomModel.write(dir, seed, config, tensors(config), maxShardBytes);
        return ModelInspection.parameters(model(config));
    }

    private static ModelConfig model(ObjectNode config) {
        return ModelConfig.of(config.toString().getBytes(StandardCharsets.UTF_8));
    }

    /// Those that the engine will ask for, those of a draft layer included, if the config tells of one.
    private static List<RandomModel.Tensor> tensors(ObjectNode config) {
        ModelConfig model = model(config);
        boolean drafting = config.path("num_nextn_predict_layers").asInt() > 0;
        ModelConfig whole = drafting ? model.withDraft(new DraftConfig(false, false, true)) : model;
        return TensorExpectation.of(whole).stream()
                .map(one -> new RandomModel.Tensor(one.name(), one.shape()))
                .toList();
    }
}

package millrace.engine;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kv.KvLayout;
import millrace.engine.model.DraftConfig;
import millrace.engine.model.IndexerConfig;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.MoeConfig;
import millrace.engine.model.TensorExpectation;
import millrace.engine.model.Transformer;
import millrace.engine.tokenizer.Tokenizer;
import millrace.engine.weights.ModelFiles;
import org.jspecify.annotations.Nullable;

/// What a checkpoint is, found by checking all of its files and computing nothing.
///
/// @param name last part of the directory
/// @param parameters of the tensors that the model uses
/// @param activeParameters those that one token passes through: of the routed experts only the chosen ones
/// @param parametersByPart parts in the order of the computation, empty ones left out
/// @param bytesByDtype over all stored tensors, skipped ones included
/// @param weights matrices by the format that they are stored in, those of a draft layer included
/// @param mostEscapes packed matrices with the largest shares of escapes, at most five, none without any
/// @param tensorsSkipped stored tensors that neither the model nor its draft layer needs
/// @param sparse what attention reads, or null where it reads every position
/// @param drafting whether tokens can be drafted ahead
/// @param specialTokens name to id of all added tokens, in order of id
/// @param stopTokenIds ids that end a completion, ascending
public record ModelInspection(
        String name,
        String architecture,
        String family,
        int layers,
        long parameters,
        long activeParameters,
        Map<String, Long> parametersByPart,
        Map<String, Long> bytesByDtype,
        List<WeightCost> weights,
        List<EscapeShare> mostEscapes,
        int tensorsSkipped,
        int vocabSize,
        int maxContext,
        List<KvCost> kv,
        @Nullable SparseAttention sparse,
        Drafting drafting,
        String tokenizer,
        int tokenizerVocabSize,
        String tokenizerDigest,
        String chatFormat,
        Map<String, Integer> specialTokens,
        List<Integer> stopTokenIds,
        String digest,
        List<ModelCard.FileDigest> files) {
    private static final List<String> PARTS = List.of(
            "embedding", "attention", "indexer", "dense feed-forward", "router", "routed experts", "shared experts", "norms",
            "output head");

    public ModelInspection {
        // Copies that keep the order.
        parametersByPart = Collections.unmodifiableMap(new LinkedHashMap<>(parametersByPart));
        bytesByDtype = Collections.unmodifiableMap(new LinkedHashMap<>(bytesByDtype));
        specialTokens = Collections.unmodifiableMap(new LinkedHashMap<>(specialTokens));
        weights = List.copyOf(weights);
        mostEscapes = List.copyOf(mostEscapes);
        kv = List.copyOf(kv);
        stopTokenIds = List.copyOf(stopTokenIds);
        files = List.copyOf(files);
    }

    /// What matrices of one format cost.
    ///
    /// @param weights numbers in them
    /// @param bytes in the files, scales and tables included
    /// @param escapes weights whose exponent is written out, in `packed`
    /// @param rawPanels panels of 16 rows that stayed in BF16, in `packed`
    public record WeightCost(String format, int matrices, long weights, long bytes, long escapes, long rawPanels) {
        public double bitsPerWeight() {
            return 8.0 * bytes / weights;
        }

        private WeightCost plus(WeightCost other) {
            return new WeightCost(
                    format,
                    matrices + other.matrices,
                    weights + other.weights,
                    bytes + other.bytes,
                    escapes + other.escapes,
                    rawPanels + other.rawPanels);
        }
    }

    /// How many weights of a packed matrix escape.
    public record EscapeShare(String tensor, double share, long rawPanels) {}

    /// What a KV format costs.
    ///
    /// @param bytesPerToken of both caches, padding and scales included, without a draft layer
    /// @param pageBytes of a page, the unit in which the cache is handed out
    /// @param indexFormat the format of index keys that goes with it, or empty where there are none
    /// @param indexBytesPerToken what of `bytesPerToken` index keys take
    /// @param draftBytesPerToken what is added where tokens are drafted; 0 without a draft layer
    public record KvCost(
            String format,
            long bytesPerToken,
            long pageBytes,
            String indexFormat,
            long indexBytesPerToken,
            long draftBytesPerToken) {
        /// Tokens of the whole pages that fit so many bytes.
        public long tokensIn(long budgetBytes) {
            return budgetBytes / pageBytes * CacheShape.TOKENS;
        }

        /// Bytes of a page where tokens are drafted.
        public long draftingPageBytes() {
            return pageBytes + draftBytesPerToken * CacheShape.TOKENS;
        }
    }

    /// What attention reads of a long context.
    ///
    /// @param topK the most positions of a query
    /// @param rotation of index heads: `interleaved` or `half-split`
    /// @param fullLayers layers that choose
    /// @param sharedLayers layers that take the choice of the nearest before them
    public record SparseAttention(int topK, int heads, int headDim, String rotation, int fullLayers, int sharedLayers) {
        /// The share of the positions that a query at the end of such a context attends to.
        public double shareAt(long context) {
            return Math.min(1, (double) topK / context);
        }
    }

    /// The draft layer of a checkpoint.
    ///
    /// @param layer whether config.json tells of one and the files have it whole
    /// @param parameters that it has; 0 without
    /// @param ownEmbedding whether it has an embedding of its own
    /// @param ownHead whether it has an output head of its own
    /// @param reason why there is none to draft with; empty where there is
    public record Drafting(boolean layer, long parameters, boolean ownEmbedding, boolean ownHead, String reason) {
        private static Drafting of(ModelConfig config, ModelFiles files) {
            if (config.moe() == null) {
                return none("models of this family have none");
            }
            ModelConfig drafting = config.withDraft(files);
            DraftConfig draft = drafting.draft();
            if (draft == null) {
                return none(config.draftLayers(files) == 0
                        ? "config.json tells of none"
                        : "the files do not have the one that config.json tells of");
            }
            try {
                TensorExpectation.check(drafting, files);
            } catch (InvalidModelException e) {
                return none(e.getMessage());
            }
            long parameters = ModelInspection.parameters(drafting) - ModelInspection.parameters(config);
            return new Drafting(true, parameters, draft.ownEmbedding(), draft.ownHead(), "");
        }

        private static Drafting none(String reason) {
            return new Drafting(false, 0, false, false, reason);
        }
    }

    /// Opens, checks and hashes a model directory.
    ///
    /// @param chatFormat id of a chat format, or null to detect it
    /// @throws InvalidModelException for everything that would stop a start
    public static ModelInspection of(Path directory, @Nullable String chatFormat) {
        try (ModelFiles files = ModelFiles.open(directory)) {
            ModelConfig config = ModelConfig.read(files);
            TensorExpectation.check(config, files);
            files.requireListed();
            TextCodec codec = TextCodec.readIfPresent(files, chatFormat);
            Tokenizer tokenizer = codec.tokenizer();
            Map<String, Long> parts = parametersByPart(config);
            Set<String> used = new HashSet<>();
            Map<String, WeightCost> costs = new TreeMap<>();
            List<EscapeShare> escapes = new ArrayList<>();
            Drafting drafting = Drafting.of(config, files);
            ModelConfig whole = drafting.layer() ? config.withDraft(files) : config;
            weigh(whole, files, used, costs, escapes);
            return new ModelInspection(
                    name(directory),
                    config.architecture(),
                    config.family().name().toLowerCase(java.util.Locale.ROOT),
                    config.numHiddenLayers(),
                    parameters(config),
                    activeParameters(config, parts),
                    parts,
                    bytesByDtype(files),
                    List.copyOf(costs.values()),
                    escapes.stream()
                            .sorted(Comparator.comparingDouble(EscapeShare::share).reversed())
                            .limit(5)
                            .toList(),
                    files.tensorNames().size() - used.size(),
                    config.vocabSize(),
                    config.maxPositionEmbeddings(),
                    kvCosts(config, whole),
                    sparse(config),
                    drafting,
                    tokenizer.kind(),
                    tokenizer.vocabSize(),
                    tokenizer.digest(),
                    codec.chatFormat(),
                    byId(tokenizer.addedTokens()),
                    stopTokenIds(config, tokenizer),
                    files.modelDigest(),
                    files.digests());
        }
    }

    static String name(Path directory) {
        Path name = directory.toAbsolutePath().normalize().getFileName();
        return name == null ? directory.toString() : name.toString();
    }

    static long parameters(ModelConfig config) {
        return TensorExpectation.of(config).stream()
                .mapToLong(ModelInspection::elements)
                .sum();
    }

    /// The union of what the configuration files and the tokenizer call an end, ascending.
    static List<Integer> stopTokenIds(ModelConfig config, Tokenizer tokenizer) {
        TreeSet<Integer> ids = new TreeSet<>(config.eosTokenIds());
        ids.addAll(tokenizer.eosTokenIds());
        return List.copyOf(ids);
    }

    private static List<KvCost> kvCosts(ModelConfig config, ModelConfig drafting) {
        List<KvCost> costs = new ArrayList<>();
        for (KvFormat format : Transformer.kvFormats(config)) {
            KvLayout layout = Transformer.kvLayout(config, format);
            KvFormat index = layout.indexFormat();
            costs.add(new KvCost(
                    format.id(),
                    layout.bytesPerToken(),
                    layout.pageBytes(),
                    index == null ? "" : index.id(),
                    layout.indexBytesPerToken(),
                    Transformer.kvLayout(drafting, format).bytesPerToken() - layout.bytesPerToken()));
        }
        return costs;
    }

    private static @Nullable SparseAttention sparse(ModelConfig config) {
        IndexerConfig indexer = config.indexer();
        return indexer == null
                ? null
                : new SparseAttention(
                        indexer.topK(),
                        indexer.heads(),
                        indexer.headDim(),
                        indexer.interleaved() ? "interleaved" : "half-split",
                        indexer.fullLayers(),
                        config.numHiddenLayers() - indexer.fullLayers());
    }

    private static Map<String, Long> parametersByPart(ModelConfig config) {
        Map<String, Long> sums = new LinkedHashMap<>();
        PARTS.forEach(part -> sums.put(part, 0L));
        for (TensorExpectation tensor : TensorExpectation.of(config)) {
            sums.merge(part(tensor.name(), config), elements(tensor), Long::sum);
        }
        sums.values().removeIf(sum -> sum == 0);
        return sums;
    }

    private static String part(String name, ModelConfig config) {
        if (name.endsWith("embed_tokens.weight")) {
            return "embedding";
        }
        if (name.equals(config.lmHeadName())) {
            return "output head";
        }
        if (name.contains(".indexer.")) {
            return "indexer";
        }
        if (name.contains("norm")) {
            return "norms";
        }
        if (name.contains(".self_attn.")) {
            return "attention";
        }
        if (name.contains(".mlp.shared_experts.")) {
            return "shared experts";
        }
        if (name.contains(".mlp.experts.")) {
            return "routed experts";
        }
        return name.contains(".mlp.gate.") ? "router" : "dense feed-forward";
    }

    private static long elements(TensorExpectation tensor) {
        return tensor.shape().stream().reduce(1L, Math::multiplyExact);
    }

    /// Those that one token passes through.
    static long activeParameters(ModelConfig config) {
        return activeParameters(config, parametersByPart(config));
    }

    /// Those that every token passes through: all but the routed experts.
    static long unroutedParameters(ModelConfig config) {
        return parameters(config) - parametersByPart(config).getOrDefault("routed experts", 0L);
    }

    private static long activeParameters(ModelConfig config, Map<String, Long> parts) {
        MoeConfig moe = config.moe();
        long all = parts.values().stream().mapToLong(Long::longValue).sum();
        if (moe == null) {
            return all;
        }
        long routed = parts.getOrDefault("routed experts", 0L);
        return all - routed + routed / moe.nRoutedExperts() * moe.numExpertsPerTok();
    }

    /// Bytes of all tensors as the files hold them.
    /// Bytes in the files of the tensors that a config asks for.
    static long storedBytes(ModelConfig config, ModelFiles files) {
        var linears = new LinearTensors(files, config.quantization());
        return TensorExpectation.of(config).stream()
                .flatMap(tensor -> tensor.matrix() ? linears.names(tensor.name()).stream() : Stream.of(tensor.name()))
                .distinct()
                .mapToLong(name -> files.tensor(name).data().byteSize())
                .sum();
    }

    private static Map<String, Long> bytesByDtype(ModelFiles files) {
        Map<String, Long> bytes = new TreeMap<>();
        for (String name : files.tensorNames()) {
            var tensor = files.tensor(name);
            bytes.merge(tensor.dtype().name().toLowerCase(java.util.Locale.ROOT), tensor.data().byteSize(), Long::sum);
        }
        return bytes;
    }

    /// Goes through all tensors that the model uses, and compares the checksums of those that have them.
    private static void weigh(
            ModelConfig config,
            ModelFiles files,
            Set<String> used,
            Map<String, WeightCost> costs,
            List<EscapeShare> shares) {
        LinearTensors linears = new LinearTensors(files, config.quantization());
        for (TensorExpectation tensor : TensorExpectation.of(config)) {
            if (!tensor.matrix()) {
                used.add(tensor.name());
                continue;
            }
            used.addAll(linears.names(tensor.name()));
            LinearTensor linear = tensor.open(linears);
            linear.verify();
            LinearTensor.Escapes escapes = linear.escapes();
            long weights = (long) linear.rows() * linear.cols();
            String format = linear.format().id();
            costs.merge(
                    format,
                    new WeightCost(format, 1, weights, linear.storedBytes(), escapes.weights(), escapes.rawPanels()),
                    WeightCost::plus);
            if (escapes.weights() + escapes.rawPanels() > 0) {
                shares.add(new EscapeShare(linear.name(), (double) escapes.weights() / weights, escapes.rawPanels()));
            }
        }
    }

    private static Map<String, Integer> byId(Map<String, Integer> tokens) {
        Map<String, Integer> sorted = new LinkedHashMap<>();
        tokens.entrySet().stream()
                .sorted(Comparator.comparing(Map.Entry::getValue))
                .forEach(entry -> sorted.put(entry.getKey(), entry.getValue()));
        return sorted;
    }
}

package millrace.engine;

import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// What an engine is opened with.
///
/// @param model directory with a Hugging Face checkpoint
/// @param backend `auto`, `cuda`, `native`, `vector` or `scalar`; what is asked for by name and cannot be had stops the
///        start
/// @param cuda the device, where the backend is or may become `cuda`
/// @param kvFormat how the KV cache stores a token, or null for the best that is lossless in practice
/// @param indexFormat how index keys of sparse attention are stored, or null for what goes with `kvFormat`
/// @param speculation whether tokens are drafted ahead
/// @param weightFormat how weights stay in memory: one of [#WEIGHT_FORMATS]; `stored` keeps each as the files have it
/// @param memoryBytes what weights, KV cache and scratch may take together, of the device's memory where they lie there;
///        0 takes a share of what is free
/// @param kvBytes budget of the KV cache in bytes; 0 takes what the others leave of `memoryBytes`, at most what
///        `maxBatch` sequences of the model's context can fill
/// @param prefixCache whether full KV pages are shared between prompts that begin alike
/// @param agingMs a waiting sequence gains one step of priority each time so many milliseconds have passed; 0 never
/// @param threads compute threads; 0 takes one per core
/// @param maxBatch the most sequences that run at once
/// @param prefillChunk the most prompt tokens that one step computes
/// @param maxContext the most tokens of one sequence, 0 for the model's own limit
/// @param pinnedDigest the digest that the model must have, or null
/// @param chatFormat id of a chat format, or null to detect it from the checkpoint
/// @param integrity how much is checked while serving
public record EngineConfig(
        Path model,
        String backend,
        CudaConfig cuda,
        @Nullable KvFormat kvFormat,
        @Nullable KvFormat indexFormat,
        Speculation speculation,
        String weightFormat,
        long memoryBytes,
        long kvBytes,
        boolean prefixCache,
        long agingMs,
        int threads,
        int maxBatch,
        int prefillChunk,
        int maxContext,
        @Nullable String pinnedDigest,
        @Nullable String chatFormat,
        IntegrityConfig integrity) {

    /// Ids that `weightFormat` may have. All but the first convert unquantised weights while loading.
    public static final List<String> WEIGHT_FORMATS = List.of("stored", "bf16", "packed", "int8", "int4");

    public static EngineConfig of(Path model) {
        return new EngineConfig(model, "auto", CudaConfig.SYSTEM, null, null, Speculation.OFF, "stored", 0, 0, true, 2_000, 0, 16, 256, 0, null,
                null, IntegrityConfig.DEFAULT);
    }

    public EngineConfig withModel(Path value) {
        return with(fields -> fields.model = value);
    }

    public EngineConfig withBackend(String value) {
        return with(fields -> fields.backend = value);
    }

    public EngineConfig withCuda(CudaConfig value) {
        return with(fields -> fields.cuda = value);
    }

    public EngineConfig withKvFormat(@Nullable KvFormat value) {
        return with(fields -> fields.kvFormat = value);
    }

    public EngineConfig withIndexFormat(@Nullable KvFormat value) {
        return with(fields -> fields.indexFormat = value);
    }

    public EngineConfig withSpeculation(Speculation value) {
        return with(fields -> fields.speculation = value);
    }

    public EngineConfig withWeightFormat(String value) {
        return with(fields -> fields.weightFormat = value);
    }

    public EngineConfig withMemoryBytes(long value) {
        return with(fields -> fields.memoryBytes = value);
    }

    public EngineConfig withKvBytes(long value) {
        return with(fields -> fields.kvBytes = value);
    }

    public EngineConfig withPrefixCache(boolean value) {
        return with(fields -> fields.prefixCache = value);
    }

    public EngineConfig withAgingMs(long value) {
        return with(fields -> fields.agingMs = value);
    }

    public EngineConfig withThreads(int value) {
        return with(fields -> fields.threads = value);
    }

    public EngineConfig withMaxBatch(int value) {
        return with(fields -> fields.maxBatch = value);
    }

    public EngineConfig withPrefillChunk(int value) {
        return with(fields -> fields.prefillChunk = value);
    }

    public EngineConfig withMaxContext(int value) {
        return with(fields -> fields.maxContext = value);
    }

    public EngineConfig withPinnedDigest(@Nullable String value) {
        return with(fields -> fields.pinnedDigest = value);
    }

    public EngineConfig withChatFormat(@Nullable String value) {
        return with(fields -> fields.chatFormat = value);
    }

    public EngineConfig withIntegrity(IntegrityConfig value) {
        return with(fields -> fields.integrity = value);
    }

    private EngineConfig with(Consumer<Fields> change) {
        Fields fields = new Fields(this);
        change.accept(fields);
        return fields.config();
    }

    /// The components as fields, so that one can be changed without naming the others.
    private static final class Fields {
        private Path model;
        private String backend;
        private CudaConfig cuda;
        private @Nullable KvFormat kvFormat;
        private @Nullable KvFormat indexFormat;
        private Speculation speculation;
        private String weightFormat;
        private long memoryBytes;
        private long kvBytes;
        private boolean prefixCache;
        private long agingMs;
        private int threads;
        private int maxBatch;
        private int prefillChunk;
        private int maxContext;
        private @Nullable String pinnedDigest;
        private @Nullable String chatFormat;
        private IntegrityConfig integrity;

        Fields(EngineConfig from) {
            model = from.model;
            backend = from.backend;
            cuda = from.cuda;
            kvFormat = from.kvFormat;
            indexFormat = from.indexFormat;
            speculation = from.speculation;
            weightFormat = from.weightFormat;
            memoryBytes = from.memoryBytes;
            kvBytes = from.kvBytes;
            prefixCache = from.prefixCache;
            agingMs = from.agingMs;
            threads = from.threads;
            maxBatch = from.maxBatch;
            prefillChunk = from.prefillChunk;
            maxContext = from.maxContext;
            pinnedDigest = from.pinnedDigest;
            chatFormat = from.chatFormat;
            integrity = from.integrity;
        }

        EngineConfig config() {
            return new EngineConfig(
                    model,
                    backend,
                    cuda,
                    kvFormat,
                    indexFormat,
                    speculation,
                    weightFormat,
                    memoryBytes,
                    kvBytes,
                    prefixCache,
                    agingMs,
                    threads,
                    maxBatch,
                    prefillChunk,
                    maxContext,
                    pinnedDigest,
                    chatFormat,
                    integrity);
        }
    }
}

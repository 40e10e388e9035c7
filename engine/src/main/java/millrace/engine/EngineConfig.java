package millrace.engine;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/// What an engine is opened with.
///
/// @param model directory with a Hugging Face checkpoint
/// @param backend `auto`, `vector` or `scalar`; what is asked for by name and cannot be had stops the start
/// @param kvBytes budget of the KV cache in bytes; 0 takes the default: a quarter of the free memory, at most what
///        `maxBatch` sequences of the model's context can fill
/// @param threads compute threads; 0 takes one per core
/// @param maxBatch the most sequences that run at once
/// @param prefillChunk the most prompt tokens that one step computes
/// @param maxContext the most tokens of one sequence, 0 for the model's own limit
/// @param pinnedDigest the digest that the model must have, or null
/// @param chatFormat id of a chat format, or null to detect it from the checkpoint
public record EngineConfig(
        Path model,
        String backend,
        KvFormat kvFormat,
        long kvBytes,
        int threads,
        int maxBatch,
        int prefillChunk,
        int maxContext,
        @Nullable String pinnedDigest,
        @Nullable String chatFormat) {

    public static EngineConfig of(Path model) {
        return new EngineConfig(model, "auto", KvFormat.BF16, 0, 0, 16, 256, 0, null, null);
    }

    public EngineConfig withModel(Path value) {
        return new EngineConfig(
                value, backend, kvFormat, kvBytes, threads, maxBatch, prefillChunk, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withBackend(String value) {
        return new EngineConfig(
                model, value, kvFormat, kvBytes, threads, maxBatch, prefillChunk, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withKvFormat(KvFormat value) {
        return new EngineConfig(
                model, backend, value, kvBytes, threads, maxBatch, prefillChunk, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withKvBytes(long value) {
        return new EngineConfig(
                model, backend, kvFormat, value, threads, maxBatch, prefillChunk, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withThreads(int value) {
        return new EngineConfig(
                model, backend, kvFormat, kvBytes, value, maxBatch, prefillChunk, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withMaxBatch(int value) {
        return new EngineConfig(
                model, backend, kvFormat, kvBytes, threads, value, prefillChunk, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withPrefillChunk(int value) {
        return new EngineConfig(
                model, backend, kvFormat, kvBytes, threads, maxBatch, value, maxContext, pinnedDigest, chatFormat);
    }

    public EngineConfig withMaxContext(int value) {
        return new EngineConfig(
                model, backend, kvFormat, kvBytes, threads, maxBatch, prefillChunk, value, pinnedDigest, chatFormat);
    }

    public EngineConfig withPinnedDigest(@Nullable String value) {
        return new EngineConfig(
                model, backend, kvFormat, kvBytes, threads, maxBatch, prefillChunk, maxContext, value, chatFormat);
    }

    public EngineConfig withChatFormat(@Nullable String value) {
        return new EngineConfig(
                model, backend, kvFormat, kvBytes, threads, maxBatch, prefillChunk, maxContext, pinnedDigest, value);
    }
}

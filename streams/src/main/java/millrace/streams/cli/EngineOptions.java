package millrace.streams.cli;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.CacheFormats;
import millrace.engine.CudaConfig;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.KvFormat;
import millrace.engine.Speculation;
import millrace.engine.TextCodec;
import millrace.engine.WeightCheck;
import millrace.streams.ModelBundleCheck;
import millrace.streams.Models;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/// Options of every command that runs an engine. An option stands above a `-D` key for the same thing.
final class EngineOptions {
    private static final String KEYS = "engine.aging.ms, engine.backend, engine.cache.prefix, engine.chat.format, "
            + "engine.cuda.device, engine.cuda.driver, engine.kv.bytes, engine.kv.format, "
            + "engine.kv.index.format, engine.max.batch, engine.max.context, engine.memory.bytes, "
            + "engine.model, engine.model.digest, engine.model.key, engine.model.signature, "
            + "engine.model.verify, engine.prefill.chunk, engine.speculation, engine.speculation.tokens, engine.threads, "
            + "engine.weights";

    @Spec(Spec.Target.MIXEE)
    @Nullable CommandSpec spec;

    @Option(
            names = "--model",
            paramLabel = "DIR",
            description = "Directory with a Hugging Face checkpoint, or glm-tiny, glm-tiny-mtp or kimi-tiny, which come along. Required, "
                    + "here or as -D engine.model=DIR.")
    @Nullable String model;

    @Option(
            names = "--backend",
            paramLabel = "NAME",
            description = "auto (default), cuda, native, vector or scalar; those of the processor give the same bits.")
    @Nullable String backend;

    @Option(
            names = "--kv",
            paramLabel = "FORMAT",
            description = "How the KV cache stores a token: auto (default), f32, bf16, int8; int4 (grouped attention); fp8, "
                    + "fp8-plain (latent attention).")
    @Nullable String kvFormat;

    @Option(
            names = "--kv-index",
            paramLabel = "FORMAT",
            description = "How index keys of sparse attention are stored: auto (default, goes with --kv), f32, bf16 or int8.")
    @Nullable String indexFormat;

    @Option(
            names = "--speculation",
            paramLabel = "MODE",
            description = "Whether the model's draft layer drafts tokens ahead: off (default), mtp or auto, with a number of "
                    + "tokens if wanted: mtp:2. It changes no token of an answer.")
    @Nullable String speculation;

    @Option(
            names = "--weights",
            paramLabel = "FORMAT",
            description = "How weights stay in memory: stored (default), bf16, packed, int8 or int4.")
    @Nullable String weightFormat;

    @Option(
            names = "--kv-bytes",
            paramLabel = "BYTES",
            converter = ByteSize.class,
            description = "Budget of the KV cache, with k, m or g; default: what the memory budget leaves.")
    @Nullable Long kvBytes;

    @Option(names = "--threads", paramLabel = "N", description = "Compute threads; default: one per core.")
    @Nullable Integer threads;

    @Option(names = "--batch", paramLabel = "N", description = "The most sequences that run at once; default: 16.")
    @Nullable Integer batch;

    @Option(
            names = "--chat-format",
            paramLabel = "ID",
            description = "Chat format, for example glm-4.5 or kimi-k2; default: detected from the checkpoint.")
    @Nullable String chatFormat;

    @Option(
            names = "-D",
            paramLabel = "key=value",
            description = "Engine setting by the name that the service's configuration has; may be repeated.")
    Map<String, String> settings = new LinkedHashMap<>();

    /// Opens an engine of this configuration. For the tools a checkpoint without a tokenizer will do: it takes token ids.
    Engine open(EngineConfig config) {
        try (LocalModel local = LocalModel.of(model())) {
            return Engine.openForIds(config.withModel(local.directory()), check());
        }
    }

    /// Who vouches for the model's files, as `engine.model.key` and its like say.
    private WeightCheck check() {
        String mode = settings.getOrDefault("engine.model.verify", "auto");
        if (!List.of("auto", "require", "warn", "off").contains(mode)) {
            throw wrong("-D engine.model.verify: expected auto, require, warn or off, got \"" + mode + "\"");
        }
        return ModelBundleCheck.of(
                mode, settings.getOrDefault("engine.model.key", ""), settings.getOrDefault("engine.model.signature", ""));
    }

    TextCodec codec() {
        try (LocalModel local = LocalModel.of(model())) {
            return TextCodec.open(local.directory(), chatFormat());
        }
    }

    /// The bundled model that was asked for, or null where it is a directory.
    @Nullable String bundled() {
        String name = model();
        return Models.bundled().contains(name) && !Files.isDirectory(Path.of(name)) ? name : null;
    }

    private String model() {
        String name = model != null ? model : settings.get("engine.model");
        if (name == null || name.isBlank()) {
            throw wrong("Missing required option: '--model=DIR'");
        }
        return name;
    }

    /// The chat format that was asked for, or null to detect it.
    @Nullable String chatFormat() {
        return chatFormat != null ? chatFormat : settings.get("engine.chat.format");
    }

    /// @throws ParameterException for an unknown key or a value out of range
    EngineConfig config() {
        EngineConfig config = EngineConfig.of(Path.of(model()));
        for (Map.Entry<String, String> setting : settings.entrySet()) {
            config = with(config, setting.getKey(), setting.getValue());
        }
        config = backend == null ? config : with(config, "--backend", backend);
        config = kvFormat == null ? config : with(config, "--kv", kvFormat);
        config = indexFormat == null ? config : with(config, "--kv-index", indexFormat);
        config = speculation == null ? config : with(config, "--speculation", speculation);
        config = weightFormat == null ? config : with(config, "--weights", weightFormat);
        config = kvBytes == null ? config : config.withKvBytes(kvBytes);
        config = threads == null ? config : with(config, "--threads", threads.toString());
        config = batch == null ? config : with(config, "--batch", batch.toString());
        return config.withChatFormat(chatFormat());
    }

    private EngineConfig with(EngineConfig config, String key, String value) {
        return switch (key) {
            case "engine.backend", "--backend" -> config.withBackend(backend(key, value));
            case "engine.cuda.driver" -> config.withCuda(driver(key, value).withDevice(config.cuda().device()));
            case "engine.cuda.device" -> config.withCuda(config.cuda().withDevice(number(key, value, 0, 255)));
            case "engine.kv.format", "--kv" -> config.withKvFormat(format(key, value));
            case "engine.kv.index.format", "--kv-index" -> config.withIndexFormat(indexFormat(key, value));
            case "engine.speculation", "--speculation" ->
                config.withSpeculation(speculation(key, value, config.speculation().tokens()));
            case "engine.speculation.tokens" ->
                config.withSpeculation(new Speculation(
                        config.speculation().mode(), number(key, value, 1, Speculation.MOST_TOKENS)));
            case "engine.weights", "--weights" -> config.withWeightFormat(weights(key, value));
            case "engine.memory.bytes" -> config.withMemoryBytes(bytes(key, value));
            case "engine.cache.prefix" -> config.withPrefixCache(flag(key, value));
            case "engine.aging.ms" -> config.withAgingMs(number(key, value, 0, 3_600_000));
            case "engine.kv.bytes" -> config.withKvBytes(bytes(key, value));
            case "engine.threads", "--threads" -> config.withThreads(number(key, value, 0, 1024));
            case "engine.max.batch", "--batch" -> config.withMaxBatch(number(key, value, 1, 4096));
            case "engine.prefill.chunk" -> config.withPrefillChunk(number(key, value, 1, 65536));
            case "engine.max.context" ->
                config.withMaxContext(number(key, value, 0, Integer.MAX_VALUE));
            case "engine.model", "engine.model.key", "engine.model.signature", "engine.model.verify" -> config;
            case "engine.model.digest" -> config.withPinnedDigest(value);
            case "engine.chat.format" -> config.withChatFormat(value);
            default -> throw wrong("-D " + key + ": expected one of " + KEYS + ", got an unknown key");
        };
    }

    private String backend(String key, String value) {
        return switch (value) {
            case "auto", "cuda", "native", "vector", "scalar" -> value;
            default -> throw wrong(key + ": expected auto, cuda, native, vector or scalar, got \"" + value + "\"");
        };
    }

    private CudaConfig driver(String key, String value) {
        try {
            return CudaConfig.of(value);
        } catch (IllegalArgumentException e) {
            throw wrong(key + ": " + e.getMessage());
        }
    }

    private @Nullable KvFormat format(String key, String value) {
        try {
            return KvFormat.ofIdOrAuto(value);
        } catch (IllegalArgumentException e) {
            throw wrong(key + ": " + e.getMessage());
        }
    }

    private @Nullable KvFormat indexFormat(String key, String value) {
        try {
            return CacheFormats.indexOfIdOrAuto(value);
        } catch (IllegalArgumentException e) {
            throw wrong(key + ": " + e.getMessage());
        }
    }

    /// @param tokens where the value says only when
    private Speculation speculation(String key, String value, int tokens) {
        try {
            Speculation asked = Speculation.of(value);
            return value.contains(":") ? asked : new Speculation(asked.mode(), tokens);
        } catch (IllegalArgumentException e) {
            throw wrong(key + ": " + e.getMessage());
        }
    }

    private String weights(String key, String value) {
        if (!EngineConfig.WEIGHT_FORMATS.contains(value)) {
            throw wrong(key + ": expected one of " + String.join(", ", EngineConfig.WEIGHT_FORMATS) + ", got \"" + value
                    + "\"");
        }
        return value;
    }

    private boolean flag(String key, String value) {
        return switch (value) {
            case "true" -> true;
            case "false" -> false;
            default -> throw wrong(key + ": expected true or false, got \"" + value + "\"");
        };
    }

    private long bytes(String key, String value) {
        try {
            return ByteSize.parse(value);
        } catch (TypeConversionException e) {
            throw wrong(key + ": " + e.getMessage());
        }
    }

    private int number(String key, String value, int least, int most) {
        try {
            int number = Integer.parseInt(value);
            if (number >= least && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            throw wrong(key + ": expected a whole number from " + least + " to " + most + ", got \"" + value + "\"");
        }
        throw wrong(key + ": expected a whole number from " + least + " to " + most + ", got \"" + value + "\"");
    }

    private ParameterException wrong(String message) {
        if (spec == null) {
            throw new IllegalStateException("picocli sets the command");
        }
        return new ParameterException(spec.commandLine(), message);
    }
}

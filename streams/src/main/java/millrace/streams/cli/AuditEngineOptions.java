package millrace.streams.cli;

import millrace.engine.CacheFormats;
import millrace.engine.CudaConfig;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.IntegrityConfig;
import millrace.engine.KvFormat;
import millrace.engine.Machine;
import millrace.engine.Speculation;
import millrace.schemas.AttestationRecord;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/// The engine of `audit replay`. What the answers were computed with is taken from their leaves where it can be.
final class AuditEngineOptions {
    @Option(names = "--model", required = true, paramLabel = "DIR",
            description = "Directory with the checkpoint, or glm-tiny, glm-tiny-mtp or kimi-tiny, which come along.")
    String model = "";

    @Option(names = "--backend", paramLabel = "NAME", defaultValue = "auto",
            description = "auto, cuda, native, vector or scalar. auto (default) takes the profile of the first leaf where that is at hand.")
    String backend = "auto";

    @Option(names = "--threads", paramLabel = "N", defaultValue = "0", description = "Compute threads; default: one per core.")
    int threads;

    @Option(names = "--batch", paramLabel = "N", defaultValue = "16",
            description = "The most sequences that run at once; default: 16.")
    int batch;

    @Option(names = "--kv", paramLabel = "FORMAT", description = "KV format (default: that of the first leaf).")
    @Nullable String kvFormat;

    @Option(names = "--kv-index", paramLabel = "FORMAT",
            description = "Format of index keys (default: that of the first leaf).")
    @Nullable String indexFormat;

    @Option(names = "--speculation", paramLabel = "MODE", defaultValue = "off",
            description = "off (default), mtp or auto, with a number of tokens if wanted: mtp:2; "
                    + "an answer has the same bits either way.")
    String speculation = "off";

    @Option(names = "--weights", paramLabel = "FORMAT", defaultValue = "stored",
            description = "How weights stay in memory: stored (default), bf16, packed, int8 or int4.")
    String weights = "stored";

    @Option(names = "--kv-bytes", paramLabel = "BYTES", converter = ByteSize.class,
            description = "Budget of the KV cache, with k, m or g; default: what the memory budget leaves.")
    @Nullable Long kvBytes;

    /// @param cuda the device, where it is needed
    /// @param attested profile and KV format of the leaves
    /// @param logitsEvery tokens that one logits digest of the leaves covers; 0 for none
    /// @param activations whether activation proofs are made, as some of the leaves have them
    Engine open(ServiceConfig service, AttestationRecord attested, int logitsEvery, boolean activations) {
        try (LocalModel local = LocalModel.of(model)) {
            CacheFormats cache = CacheFormats.of(attested.getKvFormat());
            IntegrityConfig checks = IntegrityConfig.DEFAULT;
            CudaConfig cuda = CudaConfig.of(service.string("engine.cuda.driver")).withDevice(service.integer("engine.cuda.device"));
            EngineConfig config = EngineConfig.of(local.directory()).withBackend(backend(attested.getProfile())).withCuda(cuda).withThreads(threads)
                    .withChatFormat(service.chatFormat())
                    .withMaxBatch(batch).withWeightFormat(weights)
                    .withKvFormat(kvFormat == null ? cache.kv() : KvFormat.ofIdOrAuto(kvFormat))
                    .withIndexFormat(indexFormat == null ? cache.index() : CacheFormats.indexOfIdOrAuto(indexFormat))
                    .withSpeculation(Speculation.of(speculation))
                    .withIntegrity(new IntegrityConfig(checks.profile(), checks.scrubInterval(), checks.scrubShare(),
                            checks.kvMaxAge(), checks.canaryInterval(), logitsEvery, activations));
            return Engine.openForIds(kvBytes == null ? config : config.withKvBytes(kvBytes));
        }
    }

    /// Where a GPU is at hand it would be taken first, and the processor's answers have other bits.
    private String backend(String profile) {
        if (!backend.equals("auto") || profile.startsWith("cuda")) {
            return backend;
        }
        return Machine.probe().fastestOfTheProcessor();
    }
}

package millrace.engine;

import java.util.List;

/// What an engine serves, as facts: for the start-up story, `model inspect` and every attestation.
///
/// @param name last part of the model's directory
/// @param architecture `architectures[0]` of config.json
/// @param modelDigest `sha256:` and 64 hexadecimal digits over the list of the files' digests, see docs/formats.md
/// @param files every file that was read, in order of name
/// @param tokenizerDigest SHA-256 of the tokenizer's file, hexadecimal
/// @param templateDigest SHA-256 of the chat format's id and version, hexadecimal: the format is code, not a file
/// @param backendReason why this backend was chosen
/// @param kvFormat how the KV cache stores a token, and behind it, where there are index keys, how those are stored: see
///        [CacheFormats]
/// @param weightFormat how the weights stay in memory: the formats of the matrices, most bytes first, joined by `+`
/// @param memory what the engine takes, part by part
/// @param build version of the engine and a digest of its classes
/// @param profile names the order of summation; equal profiles give equal bits
/// @param trust how the model was verified
/// @param blockTableSha256 SHA-256 of the checksums of the resident weights, 64 hexadecimal digits; empty where they are
///        not watched
/// @param device what computes, where that is not the processor
/// @param speculation whether tokens are drafted ahead; off where the model has no draft layer
public record ModelCard(
        String name,
        String architecture,
        String modelDigest,
        List<FileDigest> files,
        String tokenizerDigest,
        String templateDigest,
        String chatFormat,
        long parameters,
        int vocabSize,
        int maxContext,
        String backend,
        String backendReason,
        String weightFormat,
        String kvFormat,
        long kvBytesPerToken,
        long kvBytes,
        long kvCapacityTokens,
        MemoryPlan memory,
        String build,
        String profile,
        ModelTrust trust,
        String blockTableSha256,
        Device device,
        Speculation speculation) {

    /// One file as it was loaded.
    public record FileDigest(String name, long bytes, String sha256) {}

    public ModelCard {
        files = List.copyOf(files);
    }
}

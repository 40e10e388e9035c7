package millrace.engine;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;

/// A prompt whose greedy answer is known: what an engine must still answer when it has been running for a month.
///
/// The answer depends on the order of summation and on the formats, so those are named; it does not depend on the
/// backend, the batch or the number of threads. See docs/formats.md, `integrity/tensors.json`.
///
/// @param promptIds token ids of the prompt
/// @param maxTokens tokens that were asked for, at temperature 0
/// @param profile orders of summation, [millrace.engine.kernel.Kernels#profile]
/// @param kvFormat id of the KV format
/// @param weightFormat formats of the resident weights, as [ModelCard#weightFormat]
/// @param tokensSha256 digest of the answer, see [#digest]
public record Golden(
        List<Integer> promptIds,
        int maxTokens,
        String profile,
        String kvFormat,
        String weightFormat,
        String tokensSha256) {
    public Golden {
        promptIds = List.copyOf(promptIds);
    }

    /// Whether an engine with this card must give this answer. On a device none does: bits there are those of its
    /// capability as well, which a golden does not name, and the engine makes one of its own at the start.
    public boolean appliesTo(ModelCard card) {
        return card.device().isProcessor()
                && profile.equals(card.profile())
                && kvFormat.equals(card.kvFormat())
                && weightFormat.equals(card.weightFormat());
    }

    /// Lower-case hexadecimal SHA-256 of the ids, each as 4 bytes, little-endian.
    public static String digest(List<Integer> tokenIds) {
        ByteBuffer bytes = ByteBuffer.allocate(Integer.BYTES * tokenIds.size()).order(ByteOrder.LITTLE_ENDIAN);
        tokenIds.forEach(bytes::putInt);
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes.array()));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}

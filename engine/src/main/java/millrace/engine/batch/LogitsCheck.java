package millrace.engine.batch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.zip.CRC32C;
import millrace.engine.sampling.Sampler;
import org.jspecify.annotations.Nullable;

/// Looks at a row of logits before anything is made of it, and digests it.
///
/// A row is refused if one of its numbers is NaN, infinite or larger than the weights allow, or if all are equal. The bound
/// is not an estimate: no hidden state whatever gives a larger logit ([StepModel#logitBound]), so a sound computation is
/// never refused.
///
/// Used by one thread; nothing is allocated after construction.
final class LogitsCheck {
    private static final int CHUNK = 4_096;

    private final int vocabSize;
    private final float bound;
    private final @Nullable LogitFacts facts;
    private final int[] bits = new int[CHUNK];
    private final ByteBuffer bytes = ByteBuffer.allocateDirect(CHUNK * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
    private final FloatBuffer floats = bytes.asFloatBuffer();

    /// @param bound the largest absolute value that a logit can have
    /// @param facts what is known of the rows of a step; null where they are looked at here
    LogitsCheck(int vocabSize, float bound, @Nullable LogitFacts facts) {
        this.vocabSize = vocabSize;
        this.bound = bound;
        this.facts = facts;
    }

    /// Without anything known.
    LogitsCheck(int vocabSize, float bound) {
        this(vocabSize, bound, null);
    }

    int vocabSize() {
        return vocabSize;
    }

    /// What is wrong with `logits[offset … offset + vocabSize)`: `nan`, `bound` or `equal`, or `copy` if the largest of them
    /// is another one than was known; null if nothing is.
    @Nullable String problem(float[] logits, int offset) {
        if (facts != null) {
            int row = offset / vocabSize;
            String known = verdict(facts.largest(row), facts.differing(row));
            boolean same = known != null
                    || Float.floatToRawIntBits(logits[offset + facts.best(row)]) == facts.bestBits(row);
            return same ? known : "copy";
        }
        int largest = 0;
        int differing = 0;
        int first = Float.floatToRawIntBits(logits[offset]);
        for (int from = 0; from < vocabSize; from += CHUNK) {
            int n = Math.min(CHUNK, vocabSize - from);
            // Apart, so that the compiler makes vectors of the loop that reduces.
            for (int i = 0; i < n; i++) {
                bits[i] = Float.floatToRawIntBits(logits[offset + from + i]);
            }
            for (int i = 0; i < n; i++) {
                largest = Math.max(largest, bits[i] & 0x7FFF_FFFF);
                differing |= bits[i] ^ first;
            }
        }
        return verdict(largest, differing);
    }

    private @Nullable String verdict(int largest, int differing) {
        // Without their sign, floats are in the order of their bits, with infinity and then NaN above all numbers.
        if (largest >= 0x7F80_0000) {
            return "nan";
        }
        if (Float.intBitsToFloat(largest) > bound) {
            return "bound";
        }
        return differing == 0 && vocabSize > 1 ? "equal" : null;
    }

    /// The largest of `logits[offset … offset + vocabSize)`, which have no [#problem], if that is known: the lowest token of
    /// several; else [Sampler#UNKNOWN].
    int best(int offset) {
        return facts == null ? Sampler.UNKNOWN : facts.best(offset / vocabSize);
    }

    /// Adds `logits[offset … offset + vocabSize)` to a digest, as binary32, little-endian.
    void digest(CRC32C crc, float[] logits, int offset) {
        for (int from = 0; from < vocabSize; from += CHUNK) {
            int n = Math.min(CHUNK, vocabSize - from);
            floats.clear().put(logits, offset + from, n);
            bytes.clear().limit(n * Float.BYTES);
            crc.update(bytes);
        }
    }
}

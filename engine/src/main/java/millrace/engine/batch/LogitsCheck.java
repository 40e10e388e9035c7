package millrace.engine.batch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.util.function.IntConsumer;
import java.util.zip.CRC32C;
import millrace.engine.format.CrcShift;
import org.jspecify.annotations.Nullable;

/// Reads a row of logits once, before anything is made of it: what is wrong with it, its digest, and its largest number.
///
/// A row is refused if one of its numbers is NaN, infinite or larger than the weights allow, or if all are equal. The bound
/// is not an estimate: no hidden state whatever gives a larger logit ([StepModel#logitBound]), so a sound computation is
/// never refused.
///
/// ```
///  row    [ part 0 ][ part 1 ] … [ last ]      each by whichever thread is free; what they find is joined in order, so
///           chunk chunk …                      nothing depends on who did what
/// ```
///
/// Used by one thread at a time, which may have a team; nothing is allocated after construction.
final class LogitsCheck {
    /// Numbers that are read together: they stay in the nearest cache.
    private static final int CHUNK = 4_096;

    private static final int PART = 4 * CHUNK;

    /// Runs a task for each of `0 … count − 1`, on any thread, in any order; returns when all are done.
    interface Team {
        void forEach(int count, IntConsumer task);
    }

    private final int vocabSize;
    private final float bound;
    private final @Nullable LogitFacts facts;
    private final Team team;
    private final Part[] parts;
    private final CrcShift wholePart = new CrcShift((long) Float.BYTES * PART);
    private final CrcShift lastPart;
    private final IntConsumer task = this::look;
    private float[] logits = {};
    private int offset;
    private boolean digesting;
    private float largest;
    private int best;

    /// Whether the largest stands there, and not behind it.
    private boolean exact;

    private int checksum;

    /// @param bound the largest absolute value that a logit can have
    /// @param facts what is known of the rows of a step; null where all is looked at here
    /// @param team reads the parts of a row side by side
    LogitsCheck(int vocabSize, float bound, @Nullable LogitFacts facts, Team team) {
        this.vocabSize = vocabSize;
        this.bound = bound;
        this.facts = facts;
        this.team = team;
        parts = new Part[Math.ceilDiv(vocabSize, PART)];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = new Part(i * PART, Math.min(PART, vocabSize - i * PART));
        }
        lastPart = new CrcShift((long) Float.BYTES * parts[parts.length - 1].count);
    }

    /// Without anything known, on the caller's thread.
    LogitsCheck(int vocabSize, float bound) {
        this(vocabSize, bound, null, (count, task) -> {
            for (int i = 0; i < count; i++) {
                task.accept(i);
            }
        });
    }

    int vocabSize() {
        return vocabSize;
    }

    /// Bytes of a row as it is digested.
    long rowBytes() {
        return (long) Float.BYTES * vocabSize;
    }

    /// Reads `row[from … from + vocabSize)`.
    ///
    /// @param digest whether [#checksum] will be asked for
    /// @return what is wrong with it: `nan`, `bound` or `equal`, or `copy` if the largest of them is another one than was known;
    ///         null if nothing is
    @Nullable String problem(float[] row, int from, boolean digest) {
        logits = row;
        offset = from;
        digesting = digest;
        if (facts == null) {
            return look();
        }
        int number = from / vocabSize;
        boolean here = facts.here(number);
        if (digest && here) {
            look();
        } else if (digest) {
            checksum = facts.checksum(number);
        }
        String known = verdict(facts.largest(number), facts.differing(number));
        best = facts.best(number);
        largest = Float.intBitsToFloat(facts.bestBits(number));
        exact = true;
        boolean same = known != null || !here || Float.floatToRawIntBits(row[from + best]) == facts.bestBits(number);
        return same ? known : "copy";
    }

    /// The token that was drawn already from the row that was read last, which is sound; [Choice#NONE] for none.
    int drawn() {
        return facts == null ? Choice.NONE : facts.drawn(offset / vocabSize);
    }

    /// Has the row that was read last stand where it was read.
    void bring() {
        if (facts != null) {
            facts.bring(offset / vocabSize);
        }
    }

    private @Nullable String look() {
        team.forEach(parts.length, task);
        int magnitude = 0;
        int differing = 0;
        Part first = parts[0];
        best = first.best;
        checksum = first.checksum;
        float most = first.most;
        for (int i = 0; i < parts.length; i++) {
            Part part = parts[i];
            magnitude = Math.max(magnitude, part.magnitude);
            differing |= part.differing;
            if (part.most > most) {
                most = part.most;
                best = part.best;
            }
            if (i > 0) {
                checksum = (i == parts.length - 1 ? lastPart : wholePart).join(checksum, part.checksum);
            }
        }
        largest = most;
        exact = false;
        return verdict(magnitude, differing);
    }

    private @Nullable String verdict(int magnitude, int differing) {
        // Without their sign, floats are in the order of their bits, with infinity and then NaN above all numbers.
        if (magnitude >= 0x7F80_0000) {
            return "nan";
        }
        if (Float.intBitsToFloat(magnitude) > bound) {
            return "bound";
        }
        return differing == 0 && vocabSize > 1 ? "equal" : null;
    }

    /// Where the largest number of the row that was read last stands, the first of them; the row must be sound, and as it was.
    int best() {
        float[] row = logits;
        int at = offset + best;
        while (!exact && row[at] != largest) {
            at++;
        }
        return at - offset;
    }

    /// CRC-32C of the row that was read last, as binary32, little-endian.
    int checksum() {
        return checksum;
    }

    private void look(int part) {
        parts[part].look();
    }

    /// What one thread reads at once, and what it found there.
    private final class Part {
        private final int start;
        private final int count;
        private final int[] bits;
        private final ByteBuffer bytes;
        private final FloatBuffer floats;
        private final IntBuffer words;
        private final CRC32C crc = new CRC32C();
        private int magnitude;
        private int differing;
        private float highest;

        /// The largest number, and from where on it stands first.
        private float most;

        private int best;

        private int checksum;

        Part(int start, int count) {
            this.start = start;
            this.count = count;
            bits = new int[Math.min(CHUNK, count)];
            bytes = ByteBuffer.allocateDirect(bits.length * Float.BYTES).order(ByteOrder.LITTLE_ENDIAN);
            floats = bytes.asFloatBuffer();
            words = bytes.asIntBuffer();
        }

        void look() {
            int first = Float.floatToRawIntBits(logits[offset]);
            magnitude = 0;
            differing = 0;
            best = start;
            most = logits[offset + start];
            crc.reset();
            for (int at = start; at < start + count; at += CHUNK) {
                int n = Math.min(CHUNK, start + count - at);
                floats.clear().put(logits, offset + at, n);
                words.clear().get(bits, 0, n);
                if (digesting) {
                    bytes.clear().limit(n * Float.BYTES);
                    crc.update(bytes);
                }
                reduce(n, first);
                if (highest > most) {
                    most = highest;
                    best = at;
                }
            }
            checksum = (int) crc.getValue();
        }

        /// A loop of its own over nothing but an array of integers and local variables, each of which takes part in some
        /// arithmetic beside the reduction: only so does the compiler make vectors of it, which is ten times faster.
        private void reduce(int n, int first) {
            int[] raw = bits;
            int largest = 0;
            int changed = 0;
            int top = Integer.MIN_VALUE;
            for (int i = 0; i < n; i++) {
                int word = raw[i];
                largest = Math.max(largest, word & 0x7FFF_FFFF);
                changed |= word ^ first;
                top = Math.max(top, word ^ ((word >> 31) & 0x7FFF_FFFF));
            }
            magnitude = Math.max(magnitude, largest);
            differing |= changed;
            // In this form integers have the order of the floats, but for the two zeros.
            highest = Float.intBitsToFloat(top ^ ((top >> 31) & 0x7FFF_FFFF));
        }
    }
}

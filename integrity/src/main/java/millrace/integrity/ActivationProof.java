package millrace.integrity;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/// A proof of what a model computed inside, small enough to keep: the 128 largest activations of a run of tokens, as a
/// polynomial over a prime field (TOPLOC).
///
/// The activations are those after the final norm, of up to 32 tokens after one another, rounded to BF16. Their indices
/// in that flat vector are folded by a modulus under which they stay distinct; the polynomial through (index, bits of the
/// value) has as many coefficients as there are values. Who has the model computes the same vector, evaluates the
/// polynomial at its own indices, and compares: another model, precision or prompt gives other exponents.
///
/// ```
/// u16 modulus || u16 coefficient of x⁰ || u16 coefficient of x¹ || …      big-endian, 2 + 2 · 128 bytes
/// ```
public final class ActivationProof {
    /// The prime of the field, and the largest modulus.
    static final int FIELD = 65_497;

    /// Values that one proof is made of.
    public static final int VALUES = 128;

    /// Bytes of a proof.
    public static final int BYTES = 2 + 2 * VALUES;

    private static final int LEAST_MATCHES = 90;
    private static final double MOST_MEAN = 10;
    private static final double MOST_MEDIAN = 8;
    private static final int EXPONENT = 0xFF80;
    private static final int MANTISSA = 0x7F;

    private final int modulus;
    private final int[] coefficients;

    private ActivationProof(int modulus, int[] coefficients) {
        this.modulus = modulus;
        this.coefficients = coefficients;
    }

    /// @param indices of the largest activations, all different, none below 0
    /// @param bits the BF16 bits of each, below 65,497: neither NaN nor infinite values have a proof
    /// @throws IntegrityException code `PROOF_FORMAT` for values that have none
    public static ActivationProof of(int[] indices, int[] bits) {
        if (indices.length == 0 || indices.length != bits.length || Arrays.stream(indices).anyMatch(i -> i < 0)
                || Arrays.stream(indices).distinct().count() != indices.length) {
            throw malformed("expected different indices of at least 0 and a value for each, got " + indices.length
                    + " indices and " + bits.length + " values");
        }
        for (int value : bits) {
            if (value < 0 || value > 0xFFFF || (value & 0x7F80) == 0x7F80) {
                throw malformed("expected finite BF16 values, got bits 0x" + Integer.toHexString(value));
            }
        }
        int modulus = modulus(indices);
        int[] points = Arrays.stream(indices).map(i -> i % modulus).toArray();
        return new ActivationProof(modulus, interpolate(points, bits));
    }

    /// The largest modulus under which the indices stay different. There is one: indices that are different are so
    /// under every modulus above their largest difference, or under one of the many that divides no difference.
    private static int modulus(int[] indices) {
        Set<Integer> seen = new HashSet<>();
        for (int modulus = FIELD; modulus >= indices.length; modulus--) {
            seen.clear();
            int m = modulus;
            if (Arrays.stream(indices).allMatch(i -> seen.add(i % m))) {
                return modulus;
            }
        }
        throw malformed("expected indices that some modulus keeps apart");
    }

    /// Newton's divided differences, then the coefficients of the powers.
    private static int[] interpolate(int[] x, int[] y) {
        int n = x.length;
        long[] differences = Arrays.stream(y).asLongStream().toArray();
        for (int order = 1; order < n; order++) {
            for (int i = n - 1; i >= order; i--) {
                long distance = Math.floorMod((long) x[i] - x[i - order], FIELD);
                differences[i] = Math.floorMod(differences[i] - differences[i - 1], FIELD) * inverse(distance) % FIELD;
            }
        }
        long[] out = new long[n];
        out[0] = differences[n - 1];
        for (int i = n - 2; i >= 0; i--) {
            // out = out · (X − x[i]) + differences[i]
            for (int power = n - 1; power > 0; power--) {
                out[power] = Math.floorMod(out[power - 1] - out[power] * x[i], FIELD);
            }
            out[0] = Math.floorMod(differences[i] - out[0] * x[i], FIELD);
        }
        return Arrays.stream(out).mapToInt(c -> (int) c).toArray();
    }

    /// By Fermat: a^(p−2).
    private static long inverse(long a) {
        long result = 1;
        long base = a;
        for (int exponent = FIELD - 2; exponent > 0; exponent >>= 1) {
            if ((exponent & 1) == 1) {
                result = result * base % FIELD;
            }
            base = base * base % FIELD;
        }
        return result;
    }

    public byte[] encode() {
        ByteBuffer out = ByteBuffer.allocate(2 + 2 * coefficients.length).putShort((short) modulus);
        for (int coefficient : coefficients) {
            out.putShort((short) coefficient);
        }
        return out.array();
    }

    /// Reads a proof of [#VALUES] values.
    ///
    /// @throws IntegrityException code `PROOF_FORMAT`, also for the all-zero proof that some provers emit on an error
    public static ActivationProof parse(byte[] bytes) {
        if (bytes.length != BYTES) {
            throw malformed("expected " + BYTES + " bytes, got " + bytes.length);
        }
        ByteBuffer in = ByteBuffer.wrap(bytes);
        int modulus = in.getShort() & 0xFFFF;
        if (modulus < VALUES || modulus > FIELD) {
            throw malformed("modulus: expected " + VALUES + " to " + FIELD + ", got " + modulus);
        }
        int[] coefficients = new int[VALUES];
        for (int i = 0; i < VALUES; i++) {
            coefficients[i] = in.getShort() & 0xFFFF;
            if (coefficients[i] >= FIELD) {
                throw malformed("coefficient " + i + ": expected below " + FIELD + ", got " + coefficients[i]);
            }
        }
        return new ActivationProof(modulus, coefficients);
    }

    /// Compares with what the verifier has computed.
    ///
    /// @param indices of the verifier's own largest activations
    /// @param bits their BF16 bits
    public Comparison compare(int[] indices, int[] bits) {
        int[] distances = new int[indices.length];
        int matches = 0;
        for (int i = 0; i < indices.length; i++) {
            int claimed = at(indices[i] % modulus);
            if ((claimed & EXPONENT) == (bits[i] & EXPONENT)) {
                distances[matches++] = Math.abs((claimed & MANTISSA) - (bits[i] & MANTISSA));
            }
        }
        if (matches == 0) {
            return new Comparison(indices.length, 0, Double.POSITIVE_INFINITY, Double.POSITIVE_INFINITY);
        }
        int[] sorted = Arrays.copyOf(distances, matches);
        Arrays.sort(sorted);
        double median = (sorted[(matches - 1) / 2] + sorted[matches / 2]) / 2.0;
        return new Comparison(indices.length, matches, Arrays.stream(sorted).average().orElseThrow(), median);
    }

    private int at(int x) {
        long value = 0;
        for (int i = coefficients.length - 1; i >= 0; i--) {
            value = (value * x + coefficients[i]) % FIELD;
        }
        return (int) value;
    }

    /// How far a proof agrees with another computation.
    ///
    /// @param values compared
    /// @param matches values whose sign and exponent agree
    /// @param mean of the differences of the 7-bit mantissas among those
    /// @param median of the same
    public record Comparison(int values, int matches, double mean, double median) {
        /// Whether the same model in the same precision can have made the proof, by the thresholds of its authors: at
        /// least 90 of 128 exponents, a mean of at most 10 and a median of at most 8.
        public boolean plausible() {
            return (long) matches * VALUES >= (long) LEAST_MATCHES * values && mean <= MOST_MEAN && median <= MOST_MEDIAN;
        }
    }

    private static IntegrityException malformed(String what) {
        return new IntegrityException("PROOF_FORMAT", "activation proof: " + what);
    }
}

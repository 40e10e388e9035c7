package millrace.integrity;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// Which leaves an auditor looks at again: drawn by a signature that the operator could not know when the answers were
/// given, so nobody can keep bad answers out of the draw.
///
/// Leaf `seq` is drawn if the first 8 bytes of `SHA-256("lottery/v1" || signature || LE64(seq))`, as an unsigned
/// big-endian number, are below `rate * 2^64`. The signature is the 64 bytes of Ed25519 over the next checkpoint: the
/// smallest that covers the leaf.
public final class Lottery {
    private static final byte[] TAG = "lottery/v1".getBytes(StandardCharsets.US_ASCII);
    private static final BigDecimal TWO_64 = BigDecimal.TWO.pow(64);

    private final boolean all;
    private final long threshold; // unsigned

    /// @param rate share of the leaves that is drawn, above 0 and at most 1
    /// @throws IllegalArgumentException for another rate
    public Lottery(BigDecimal rate) {
        if (rate.signum() <= 0 || rate.compareTo(BigDecimal.ONE) > 0) {
            throw new IllegalArgumentException("--rate: expected a number above 0 and at most 1, got " + rate);
        }
        all = rate.compareTo(BigDecimal.ONE) == 0;
        threshold = rate.multiply(TWO_64).setScale(0, RoundingMode.CEILING).toBigInteger().longValue();
    }

    /// Whether a leaf is drawn.
    ///
    /// @param signature see the class
    public boolean draws(byte[] signature, long seq) {
        byte[] number = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(seq).array();
        long ticket = ByteBuffer.wrap(Digest.sha256(TAG, signature, number).bytes()).getLong();
        return all || Long.compareUnsigned(ticket, threshold) < 0;
    }

    /// The Ed25519 signature in a line of a note, without the time that a witness states.
    public static byte[] signature(SignedNote.Signature line) {
        byte[] bytes = line.signature();
        return bytes.length == NoteVerifier.COSIGNATURE_BYTES ? Arrays.copyOfRange(bytes, 8, bytes.length) : bytes;
    }
}

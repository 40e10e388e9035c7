package millrace.engine.format;

/// Joins CRC-32C values of bytes that follow each other, without the bytes: `crc(A ‖ B) = shift(crc(A), |B|) ⊕ crc(B)`.
///
/// A value is a polynomial over GF(2) of degree below 32, its highest power in bit 0; appending a byte multiplies it by x⁸,
/// modulo that of CRC-32C. So appending n bytes is one multiplication by x⁸ⁿ, which is computed once.
public final class CrcShift {
    /// CRC-32C's polynomial without x³², the highest power in bit 0.
    private static final int POLYNOMIAL = 0x82F6_3B78;

    private static final int ONE = 1 << 31;
    private static final int X = 1 << 30;

    private final int factor;

    /// @param bytes of the second part, 0 or more
    public CrcShift(long bytes) {
        int power = ONE;
        int square = X;
        for (long exponent = Math.multiplyExact(bytes, Byte.SIZE); exponent > 0; exponent >>= 1) {
            if ((exponent & 1) != 0) {
                power = times(power, square);
            }
            square = times(square, square);
        }
        factor = power;
    }

    /// The value of both parts.
    ///
    /// @param second that of the second part, which has as many bytes as this was made for
    public int join(int first, int second) {
        return append(first) ^ second;
    }

    /// A polynomial times that of the second part's bytes.
    public int append(int polynomial) {
        return times(factor, polynomial);
    }

    private static int times(int a, int b) {
        int product = 0;
        int multiple = b;
        for (int bit = ONE; bit != 0; bit >>>= 1) {
            if ((a & bit) != 0) {
                product ^= multiple;
            }
            multiple = multiple >>> 1 ^ (POLYNOMIAL & -(multiple & 1));
        }
        return product;
    }
}

package millrace.engine.format;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/// Access to little-endian numbers at any alignment: of 8 (`octet`), 16 (`half`), 32 (`word`, as F32 `real`) and 64 bits
/// (`twice`).
public final class Words {
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Words() {}

    public static int word(MemorySegment data, long at) {
        return data.get(INT, at);
    }

    public static void word(MemorySegment data, long at, int value) {
        data.set(INT, at, value);
    }

    public static void words(int[] values, int count, MemorySegment out, long at) {
        MemorySegment.copy(values, 0, out, INT, at, count);
    }

    /// Copies so many consecutive ones.
    public static void words(MemorySegment data, long at, int[] out, int count) {
        MemorySegment.copy(data, INT, at, out, 0, count);
    }

    public static short half(MemorySegment data, long at) {
        return data.get(SHORT, at);
    }

    public static void half(MemorySegment data, long at, short value) {
        data.set(SHORT, at, value);
    }

    /// Copies so many consecutive ones.
    public static void halves(MemorySegment data, long at, short[] out, int offset, int count) {
        MemorySegment.copy(data, SHORT, at, out, offset, count);
    }

    public static float real(MemorySegment data, long at) {
        return Float.intBitsToFloat(data.get(INT, at));
    }

    public static void real(MemorySegment data, long at, float value) {
        data.set(INT, at, Float.floatToRawIntBits(value));
    }

    public static byte octet(MemorySegment data, long at) {
        return data.get(ValueLayout.JAVA_BYTE, at);
    }

    public static void octet(MemorySegment data, long at, byte value) {
        data.set(ValueLayout.JAVA_BYTE, at, value);
    }

    public static long twice(MemorySegment data, long at) {
        return data.get(LONG, at);
    }

    public static void twice(MemorySegment data, long at, long value) {
        data.set(LONG, at, value);
    }
}

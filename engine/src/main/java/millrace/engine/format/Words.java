package millrace.engine.format;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/// Access to little-endian words.
final class Words {
    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfShort SHORT =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Words() {}

    static int word(MemorySegment data, long at) {
        return data.get(INT, at);
    }

    static void word(MemorySegment data, long at, int value) {
        data.set(INT, at, value);
    }

    static void words(int[] values, int count, MemorySegment out, long at) {
        MemorySegment.copy(values, 0, out, INT, at, count);
    }

    static short half(MemorySegment data, long at) {
        return data.get(SHORT, at);
    }

    static void half(MemorySegment data, long at, short value) {
        data.set(SHORT, at, value);
    }

    static float real(MemorySegment data, long at) {
        return Float.intBitsToFloat(data.get(INT, at));
    }

    static void real(MemorySegment data, long at, float value) {
        data.set(INT, at, Float.floatToRawIntBits(value));
    }

    static byte octet(MemorySegment data, long at) {
        return data.get(ValueLayout.JAVA_BYTE, at);
    }

    static void octet(MemorySegment data, long at, byte value) {
        data.set(ValueLayout.JAVA_BYTE, at, value);
    }

    static long twice(MemorySegment data, long at) {
        return data.get(LONG, at);
    }

    static void twice(MemorySegment data, long at, long value) {
        data.set(LONG, at, value);
    }
}

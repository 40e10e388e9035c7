package millrace.engine.kernel.vector;

import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static millrace.engine.kernel.vector.Lanes.F;
import static millrace.engine.kernel.vector.Lanes.I;
import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.even;
import static millrace.engine.kernel.vector.Lanes.odd;
import static millrace.engine.kernel.vector.Lanes.words;

import java.lang.foreign.ValueLayout;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import millrace.engine.format.PackedPanel;
import millrace.engine.kernel.Memory;

/// Weights of a panel to F32, `[depth][16]`, in memory that stays in the first-level cache.
final class Decoder {
    private static final ValueLayout.OfInt WORD = ValueLayout.JAVA_INT_UNALIGNED.withOrder(LITTLE_ENDIAN);
    private static final VectorSpecies<Short> HALVES =
            VectorSpecies.of(short.class, VectorShape.forBitSize(L * Short.SIZE));
    private static final int[] INT4_VALUES = int4Values();

    private Decoder() {}

    private static int[] int4Values() {
        int[] values = new int[16];
        for (int i = 0; i < 16; i++) {
            values[i] = Float.floatToRawIntBits(i - 8);
        }
        return values;
    }

    /// What the low four bits of a lane are worth.
    static IntVector int4Table() {
        return IntVector.fromArray(I, INT4_VALUES, 0);
    }

    /// Raw panels: pairs of depths.
    static void bf16(long from, int pairs, long to) {
        for (int k = 0; k < pairs; k++) {
            for (int part = 0; part < 64; part += 4 * L) {
                IntVector word = words(from + 64L * k + part);
                even(word).intoMemorySegment(Memory.ALL, to + 128L * k + part, LITTLE_ENDIAN);
                odd(word).intoMemorySegment(Memory.ALL, to + 128L * k + part + 64, LITTLE_ENDIAN);
            }
        }
    }

    /// Whole blocks of 8 depths, without their escapes.
    static void packed(long from, int blocks, long table, long to) {
        for (int part = 0; part < 64; part += 4 * L) {
            packedPart(from + part, blocks, table, to + part);
        }
    }

    private static void packedPart(long from, int blocks, long table, long to) {
        IntVector t0 = words(table);
        IntVector t1 = words(table + 4L * (L % 16));
        IntVector t2 = words(table + 8L * (L % 8));
        IntVector t3 = words(table + 12L * (L % 8));
        for (int half = 0; half < 2 * blocks; half++) {
            long block = from + (half >> 1) * (long) PackedPanel.BLOCK_BYTES;
            long at = to + 256L * half;
            IntVector codes = words(block).lanewise(VectorOperators.LSHR, 16 * (half & 1));
            IntVector rest = words(block + 64 + 64 * (half & 1));
            for (int j = 0; j < 4; j++) {
                rest.and(0x807F_0000).or(lookup(codes, t0, t1, t2, t3))
                        .intoMemorySegment(Memory.ALL, at + 64 * j, LITTLE_ENDIAN);
                codes = codes.lanewise(VectorOperators.LSHR, 4);
                rest = rest.lanewise(VectorOperators.ROL, 8);
            }
        }
    }

    /// The entries that the low four bits of each lane name, of a table of 16 in as many vectors as that takes.
    private static IntVector lookup(IntVector codes, IntVector t0, IntVector t1, IntVector t2, IntVector t3) {
        IntVector low = codes.selectFrom(t0);
        if (L == 16) {
            return low;
        }
        IntVector second = codes.selectFrom(t1);
        if (L == 8) {
            return low.blend(second, codes.and(8).compare(VectorOperators.NE, 0));
        }
        var odd = codes.and(4).compare(VectorOperators.NE, 0);
        low = low.blend(second, odd);
        IntVector high = codes.selectFrom(t2).blend(codes.selectFrom(t3), odd);
        return low.blend(high, codes.and(8).compare(VectorOperators.NE, 0));
    }

    /// Writes the weights of a flagged block whose exponents stand in the list; returns where the next block's begin.
    static long escapes(long block, long list, long to) {
        long low = 0;
        long high = 0;
        for (int lane = 0; lane < 16; lane++) {
            int codes = Memory.ALL.get(WORD, block + 4 * lane);
            int fifteens = codes & codes >>> 1 & codes >>> 2 & codes >>> 3 & 0x1111_1111;
            // One bit for each weight, by depth, then by lane.
            for (; fifteens != 0; fifteens &= fifteens - 1) {
                int depth = Integer.numberOfTrailingZeros(fifteens) / 4;
                if (depth < 4) {
                    low |= 1L << 16 * depth + lane;
                } else {
                    high |= 1L << 16 * depth + lane;
                }
            }
        }
        long next = half(low, block + 64, list, to);
        return half(high, block + 128, next, to + 256);
    }

    private static long half(long escaped, long rest, long list, long to) {
        long next = list;
        for (long bits = escaped; bits != 0; bits &= bits - 1) {
            int bit = Long.numberOfTrailingZeros(bits);
            int word = Memory.ALL.get(WORD, rest + 4 * (bit & 15));
            int exponent = Memory.ALL.get(ValueLayout.JAVA_BYTE, next++) & 0xFF;
            Memory.ALL.set(WORD, to + 4L * bit, Integer.rotateLeft(word, 8 * (bit >> 4)) & 0x807F_0000 | exponent << 23);
        }
        return next;
    }

    /// Rows of words of four depths.
    static void int8(long from, int rows, long to) {
        for (int i = 0; i < rows * (16 / L); i++) {
            IntVector word = words(from + 4L * L * i);
            long at = to + 256L * (i / (16 / L)) + 4L * L * (i % (16 / L));
            for (int shift = 24; shift >= 0; shift -= 8) {
                int8(word, shift).intoMemorySegment(Memory.ALL, at, LITTLE_ENDIAN);
                at += 64;
            }
        }
    }

    /// Rows of words of eight depths.
    static void int4(long from, int rows, long to) {
        IntVector table = int4Table();
        for (int i = 0; i < rows * (16 / L); i++) {
            IntVector word = words(from + 4L * L * i);
            long at = to + 512L * (i / (16 / L)) + 4L * L * (i % (16 / L));
            for (int depth = 0; depth < 8; depth++) {
                int4(word, (depth & 3) * 8 + (depth & 4), table).intoMemorySegment(Memory.ALL, at, LITTLE_ENDIAN);
                at += 64;
            }
        }
    }

    /// Rows of words of four depths.
    static void fp8(long from, int rows, long to) {
        for (int i = 0; i < rows * (16 / L); i++) {
            IntVector word = words(from + 4L * L * i);
            long at = to + 256L * (i / (16 / L)) + 4L * L * (i % (16 / L));
            for (int shift = 24; shift >= 0; shift -= 8) {
                fp8(word, shift).intoMemorySegment(Memory.ALL, at, LITTLE_ENDIAN);
                at += 64;
            }
        }
    }

    /// The signed byte that `shift` brings to the top.
    static FloatVector int8(IntVector word, int shift) {
        IntVector code = word.lanewise(VectorOperators.LSHL, shift).lanewise(VectorOperators.ASHR, 24);
        return (FloatVector) code.convertShape(VectorOperators.I2F, F, 0);
    }

    /// The four bits from `shift` on, less 8.
    static FloatVector int4(IntVector word, int shift, IntVector table) {
        IntVector code = word.lanewise(VectorOperators.LSHR, shift);
        if (L == 16) {
            return code.selectFrom(table).reinterpretAsFloats();
        }
        return (FloatVector) code.and(15).sub(8).convertShape(VectorOperators.I2F, F, 0);
    }

    /// The e4m3 byte that `shift` brings to the top: exponent and mantissa go where F32 has them, and a product makes
    /// up for the biases, exactly.
    static FloatVector fp8(IntVector word, int shift) {
        IntVector code = word.lanewise(VectorOperators.LSHL, shift).lanewise(VectorOperators.ASHR, 4);
        return code.and(0x87F0_0000).reinterpretAsFloats().mul(0x1p120f);
    }

    /// The BF16 scales of both groups of a block, to F32.
    static void scales(long from, long to) {
        for (int lane = 0; lane < 32; lane += L) {
            ShortVector halves = ShortVector.fromMemorySegment(HALVES, Memory.ALL, from + 2 * lane, LITTLE_ENDIAN);
            IntVector words = (IntVector) halves.convertShape(VectorOperators.ZERO_EXTEND_S2I, I, 0);
            words.lanewise(VectorOperators.LSHL, 16).intoMemorySegment(Memory.ALL, to + 4 * lane, LITTLE_ENDIAN);
        }
    }
}

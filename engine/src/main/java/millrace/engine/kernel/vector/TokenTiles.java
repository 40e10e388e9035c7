package millrace.engine.kernel.vector;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.nio.ByteOrder.LITTLE_ENDIAN;
import static millrace.engine.kernel.vector.Lanes.L;
import static millrace.engine.kernel.vector.Lanes.words;

import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;

/// Single tokens out of tiles whose depth is the token, into tiles of the same format: each word is put together from those
/// of as many tokens as it holds.
final class TokenTiles {
    private static final int TOKENS = CacheShape.TOKENS;

    private TokenTiles() {}

    /// @param tile bytes from a block to the tile; parameters else as `Loops.gather` has them
    static void copy(
            TileFormat format,
            int lanes,
            long tile,
            long[] pages,
            long blockOffset,
            int[] positions,
            int first,
            int count,
            long to,
            long blockBytes) {
        int per = format.perWord();
        int last = first + count - 1;
        for (int i = 0; i < count; i += per) {
            long row = to + i / TOKENS * blockBytes + tile + 4L * (i % TOKENS / per) * lanes;
            // Beyond the last token it is taken again: nobody looks at what stands there.
            int a = positions[first + i];
            long from = word(pages, blockOffset + tile, a, per, lanes);
            if (per == 1) {
                one(from, row, lanes);
                continue;
            }
            int bits = Integer.SIZE / per;
            int b = positions[Math.min(first + i + 1, last)];
            long from1 = word(pages, blockOffset + tile, b, per, lanes);
            if (per == 2) {
                two(from, a % 2 * bits, from1, b % 2 * bits, row, lanes);
                continue;
            }
            int c = positions[Math.min(first + i + 2, last)];
            int d = positions[Math.min(first + i + 3, last)];
            long from2 = word(pages, blockOffset + tile, c, per, lanes);
            long from3 = word(pages, blockOffset + tile, d, per, lanes);
            four(from, a % 4 * bits, from1, b % 4 * bits, from2, c % 4 * bits, from3, d % 4 * bits, row, lanes);
        }
    }

    /// Address of the words that hold a token.
    private static long word(long[] pages, long tile, int position, int per, int lanes) {
        return pages[position / TOKENS] + tile + 4L * (position % TOKENS / per) * lanes;
    }

    private static void one(long from, long to, int lanes) {
        for (int lane = 0; lane < lanes; lane += L) {
            words(from + 4L * lane).intoMemorySegment(Memory.ALL, to + 4L * lane, LITTLE_ENDIAN);
        }
    }

    private static void two(long a, int aShift, long b, int bShift, long to, int lanes) {
        for (int lane = 0; lane < lanes; lane += L) {
            IntVector low = part(a + 4L * lane, aShift, 0xFFFF);
            IntVector high = part(b + 4L * lane, bShift, 0xFFFF).lanewise(VectorOperators.LSHL, 16);
            low.or(high).intoMemorySegment(Memory.ALL, to + 4L * lane, LITTLE_ENDIAN);
        }
    }

    private static void four(
            long a, int aShift, long b, int bShift, long c, int cShift, long d, int dShift, long to, int lanes) {
        for (int lane = 0; lane < lanes; lane += L) {
            IntVector word = part(a + 4L * lane, aShift, 0xFF);
            word = word.or(part(b + 4L * lane, bShift, 0xFF).lanewise(VectorOperators.LSHL, 8));
            word = word.or(part(c + 4L * lane, cShift, 0xFF).lanewise(VectorOperators.LSHL, 16));
            word = word.or(part(d + 4L * lane, dShift, 0xFF).lanewise(VectorOperators.LSHL, 24));
            word.intoMemorySegment(Memory.ALL, to + 4L * lane, LITTLE_ENDIAN);
        }
    }

    private static IntVector part(long address, int shift, int mask) {
        return words(address).lanewise(VectorOperators.LSHR, shift).and(mask);
    }

    /// The scales of the same tokens.
    static void scales(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        for (int g = 0; g < shape.scaleGroups(); g++) {
            long scales = shape.scaleOffset() + 4L * TOKENS * g;
            for (int i = 0; i < count; i++) {
                int position = positions[first + i];
                long from = pages[position / TOKENS] + blockOffset + scales + 4L * (position % TOKENS);
                long block = to + i / TOKENS * shape.blockBytes();
                Memory.ALL.set(JAVA_INT, block + scales + 4L * (i % TOKENS), Memory.ALL.get(JAVA_INT, from));
            }
        }
    }
}

package millrace.engine.format;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// A panel in packed BF16: about 12 bits for each weight, without loss.
///
/// Trained weights use few exponents, so a weight is 4 bits that name one of the 16 most frequent exponents of its
/// panel, and a byte of sign and mantissa. What has another exponent *escapes*: its exponent follows in a list.
///
/// ```
///  0                table: 16 words, entry i is the i-th most frequent exponent, shifted left by 23
///  64               flags: bit b says that block b has escapes; whole multiples of 64 bytes
///  blocksAt         ⌈cols / 8⌉ blocks of 8 columns, 192 bytes each:
///                     16 words of codes, lane by lane; bits 4 i to 4 i + 3 of a word are column i's
///                     16 words of sign and mantissa of columns 0 to 3, lane by lane; 16 of columns 4 to 7
///  escapesAt        a byte for each escape, by column, then by lane
///                   at least 16 bytes of zero, up to a multiple of 64
/// ```
///
/// In a flagged block code 15 means that the exponent is the next escape; elsewhere it is entry 15 of the table. The
/// word of sign and mantissa of columns `j = 0 … 3` is `Σ rotr(bits & 0x807F0000, 8 j)`, so that a rotation by `8 j`
/// and a mask bring both to where an F32 has them. Missing rows and columns have code 0, sign and mantissa 0.
///
/// A panel that would not be smaller than its BF16 form, or has more than one escape in 25 weights, is better kept in
/// BF16: [#size] says so.
public final class PackedPanel {
    /// Columns of a block.
    public static final int BLOCK = 8;
    /// Bytes of a block.
    public static final int BLOCK_BYTES = 192;
    /// Weights that bear one escape: with more of them a panel stays in BF16.
    private static final int WEIGHTS_PER_ESCAPE = 25;
    private static final int ROWS = WeightFormat.PANEL_ROWS;
    private static final int ENTRIES = 16;
    private static final int ESCAPE = 15;
    private static final int SPARE = 16;

    private PackedPanel() {}

    public static int blocks(int cols) {
        return (cols + BLOCK - 1) / BLOCK;
    }

    /// Where the blocks begin, from the start of the panel.
    public static long blocksAt(int cols) {
        return 64 + 64L * ((blocks(cols) + 511) / 512);
    }

    /// Where the escapes begin, from the start of the panel.
    public static long escapesAt(int cols) {
        return blocksAt(cols) + (long) BLOCK_BYTES * blocks(cols);
    }

    /// Bytes of a panel with so many escapes.
    public static long bytes(int cols, long escapes) {
        return (escapesAt(cols) + escapes + SPARE + 63) / 64 * 64;
    }

    /// Escapes that a panel has with this table.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    public static long escapes(short[] values, int rows, int cols, int[] table) {
        int[] codes = codes(table);
        long escapes = 0;
        for (int b = 0; b < blocks(cols); b++) {
            escapes += Math.max(0, escapes(values, rows, cols, b, codes));
        }
        return escapes;
    }

    /// Bytes that a panel with so many escapes takes in this form, or −1 if it is better kept in BF16.
    public static long size(int rows, int cols, long escapes) {
        long bytes = bytes(cols, escapes);
        return escapes * WEIGHTS_PER_ESCAPE > (long) rows * cols || bytes >= Bf16Panel.bytes(cols) ? -1 : bytes;
    }

    /// The same for a panel with its own table.
    public static long size(short[] values, int rows, int cols) {
        return size(rows, cols, escapes(values, rows, cols, table(values, rows, cols)));
    }

    /// Writes a panel with its own table; returns its bytes, also where BF16 would be better.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    public static long encode(short[] values, int rows, int cols, MemorySegment out, long at) {
        return encode(values, rows, cols, table(values, rows, cols), out, at);
    }

    /// Writes a panel with a given table of 16 exponents.
    public static long encode(short[] values, int rows, int cols, int[] table, MemorySegment out, long at) {
        int[] codes = codes(table);
        out.asSlice(at, escapesAt(cols)).fill((byte) 0);
        for (int i = 0; i < ENTRIES; i++) {
            Words.word(out, at + 4 * i, table[i] << 23);
        }
        long escapes = at + escapesAt(cols);
        long next = escapes;
        for (int b = 0; b < blocks(cols); b++) {
            boolean flagged = escapes(values, rows, cols, b, codes) >= 0;
            block(values, rows, cols, b, codes, flagged, out, at + blocksAt(cols) + (long) b * BLOCK_BYTES);
            if (flagged) {
                long flags = at + 64 + b / 64 * 8;
                Words.twice(out, flags, Words.twice(out, flags) | 1L << b % 64);
                next = escapes(values, rows, cols, b, codes, out, next);
            }
        }
        long bytes = bytes(cols, next - escapes);
        out.asSlice(next, at + bytes - next).fill((byte) 0);
        return bytes;
    }

    private static void block(
            short[] values, int rows, int cols, int b, int[] codes, boolean flagged, MemorySegment out, long block) {
        int columns = Math.min(BLOCK, cols - b * BLOCK);
        int most = flagged ? ESCAPE : ENTRIES;
        for (int lane = 0; lane < rows; lane++) {
            int from = lane * cols + b * BLOCK;
            int nibbles = 0;
            long halves = 0;
            for (int i = 0; i < columns; i++) {
                short value = values[from + i];
                nibbles |= Math.min(codes[exponent(value)], most) << 4 * i;
                // Columns 0 to 3 share the lower word, 4 to 7 the upper one.
                int signMantissa = Integer.rotateRight((value & 0x807F) << 16, 8 * (i % 4));
                halves |= (signMantissa & 0xFFFF_FFFFL) << i / 4 * 32;
            }
            Words.word(out, block + 4 * lane, nibbles);
            Words.word(out, block + 64 + 4 * lane, (int) halves);
            Words.word(out, block + 128 + 4 * lane, (int) (halves >>> 32));
        }
    }

    /// Writes the escapes of a flagged block, by column, then by lane; returns where the next ones go.
    private static long escapes(
            short[] values, int rows, int cols, int b, int[] codes, MemorySegment out, long firstEscape) {
        long next = firstEscape;
        for (int k = b * BLOCK; k < Math.min(cols, (b + 1) * BLOCK); k++) {
            for (int lane = 0; lane < rows; lane++) {
                int exponent = exponent(values[lane * cols + k]);
                if (codes[exponent] >= ESCAPE) {
                    Words.octet(out, next++, (byte) exponent);
                }
            }
        }
        return next;
    }

    private static int exponent(short value) {
        return value >>> 7 & 0xFF;
    }

    /// The 16 most frequent exponents, the most frequent first, of equals the lower; 0 beyond those that occur.
    public static int[] table(short[] values, int rows, int cols) {
        long[] counts = new long[256];
        count(values, rows, cols, counts);
        return table(counts);
    }

    /// Adds how often each exponent occurs.
    public static void count(short[] values, int rows, int cols, long[] counts) {
        for (int i = 0; i < rows * cols; i++) {
            counts[exponent(values[i])]++;
        }
    }

    /// The table for these counts of 256 exponents, which are used up.
    public static int[] table(long[] counts) {
        int[] table = new int[ENTRIES];
        for (int entry = 0; entry < ENTRIES; entry++) {
            int best = 0;
            for (int e = 1; e < 256; e++) {
                if (counts[e] > counts[best]) {
                    best = e;
                }
            }
            if (counts[best] > 0) {
                table[entry] = best;
                counts[best] = 0;
            }
        }
        return table;
    }

    /// The code of each exponent; 16 if the table has it not.
    private static int[] codes(int[] table) {
        int[] codes = new int[256];
        Arrays.fill(codes, ENTRIES);
        for (int i = ENTRIES - 1; i >= 0; i--) {
            codes[table[i]] = i;
        }
        return codes;
    }

    /// Escapes of a block, or −1 if it has no need of a flag.
    private static int escapes(short[] values, int rows, int cols, int block, int[] codes) {
        int width = Math.min(BLOCK, cols - block * BLOCK);
        int missing = 0;
        int count = 0;
        for (int lane = 0; lane < rows; lane++) {
            int from = lane * cols + block * BLOCK;
            for (int k = from; k < from + width; k++) {
                int code = codes[exponent(values[k])];
                // One step over 15 for each exponent that the table lacks.
                missing += code >>> 4;
                count += code + 1 >>> 4;
            }
        }
        return missing == 0 ? -1 : count;
    }

    /// The numbers of a panel, row by row: all rows in one go, where [#row] counts escapes anew for each.
    ///
    /// @param bytes of the panel
    /// @param rows 1 to 16
    /// @throws IllegalArgumentException if its codes say that it has more escapes than there are
    public static void decode(MemorySegment data, long at, long bytes, int rows, int cols, short[] out) {
        short[] table = new short[ENTRIES];
        for (int i = 0; i < ENTRIES; i++) {
            table[i] = (short) (Words.word(data, at + 4 * i) >>> 16);
        }
        int[] words = new int[BLOCK_BYTES / Integer.BYTES];
        long next = at + escapesAt(cols);
        for (int b = 0; b < blocks(cols); b++) {
            long block = at + blocksAt(cols) + (long) b * BLOCK_BYTES;
            Words.words(data, block, words, words.length);
            int columns = Math.min(BLOCK, cols - b * BLOCK);
            for (int lane = 0; lane < rows; lane++) {
                int codes = words[lane];
                int low = words[ROWS + lane];
                int high = words[2 * ROWS + lane];
                int to = lane * cols + b * BLOCK;
                for (int i = 0; i < columns; i++) {
                    int signMantissa = Integer.rotateLeft(i < 4 ? low : high, 8 * (i & 3)) >>> 16 & 0x807F;
                    out[to + i] = (short) (signMantissa | table[codes >>> 4 * i & 15]);
                }
            }
            if (flag(data, at, b)) {
                next = escapes(data, block, next, at + bytes, b, rows, cols, out);
            }
        }
    }

    /// Puts in the exponents of a flagged block that its table has not; returns where the next block's are.
    private static long escapes(
            MemorySegment data, long block, long first, long end, int b, int rows, int cols, short[] out) {
        long next = first;
        for (int i = 0; i < BLOCK; i++) {
            for (int lane = 0; lane < ROWS; lane++) {
                if ((Words.word(data, block + 4 * lane) >>> 4 * i & 15) != ESCAPE) {
                    continue;
                }
                if (next == end) {
                    throw new IllegalArgumentException("packed panel: expected no more escapes in block " + b);
                }
                int exponent = Words.octet(data, next++) & 0xFF;
                if (lane < rows && b * BLOCK + i < cols) {
                    int to = lane * cols + b * BLOCK + i;
                    out[to] = (short) (out[to] & 0x807F | exponent << 7);
                }
            }
        }
        return next;
    }

    /// One row of the panel.
    static void row(MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        long block = at + blocksAt(cols);
        long next = at + escapesAt(cols);
        for (int b = 0; b < blocks(cols); b++, block += BLOCK_BYTES) {
            boolean flagged = flag(data, at, b);
            int columns = Math.min(BLOCK, cols - b * BLOCK);
            int codes = Words.word(data, block + 4 * lane);
            for (int i = 0; i < columns; i++) {
                int code = codes >>> 4 * i & 15;
                int exponent = flagged && code == ESCAPE
                        ? (Words.octet(data, next + escapesBefore(data, block, i, lane)) & 0xFF) << 23
                        : Words.word(data, at + 4 * code);
                int word = Words.word(data, block + 64 + i / 4 * 64 + 4 * lane);
                int bits = Integer.rotateLeft(word, 8 * (i % 4)) & 0x807F_0000 | exponent;
                out[offset + b * BLOCK + i] = Float.intBitsToFloat(bits);
            }
            if (flagged) {
                next += escapes(data, block);
            }
        }
    }

    /// Escapes of a flagged block that stand before those of a column and lane.
    private static int escapesBefore(MemorySegment data, long block, int column, int lane) {
        int count = 0;
        for (int l = 0; l < ROWS; l++) {
            int fifteens = fifteens(Words.word(data, block + 4 * l));
            int columns = l < lane ? column + 1 : column;
            count += Integer.bitCount(columns == BLOCK ? fifteens : fifteens & (1 << 4 * columns) - 1);
        }
        return count;
    }

    /// Escapes of a flagged block.
    private static int escapes(MemorySegment data, long block) {
        int count = 0;
        for (int lane = 0; lane < ROWS; lane++) {
            count += Integer.bitCount(fifteens(Words.word(data, block + 4 * lane)));
        }
        return count;
    }

    /// A bit for each nibble of 15.
    private static int fifteens(int word) {
        return word & word >>> 1 & word >>> 2 & word >>> 3 & 0x1111_1111;
    }

    private static boolean flag(MemorySegment data, long at, int block) {
        return (Words.twice(data, at + 64 + block / 64 * 8) >>> block % 64 & 1) != 0;
    }

    /// Escapes of a panel.
    public static long escapes(MemorySegment data, long at, int cols) {
        long count = 0;
        for (int b = 0; b < blocks(cols); b++) {
            if (flag(data, at, b)) {
                count += escapes(data, at + blocksAt(cols) + (long) b * BLOCK_BYTES);
            }
        }
        return count;
    }

    /// What keeps a kernel from reading a panel, or null. Bytes from elsewhere must pass before a kernel sees them: it
    /// trusts flags and codes to say how many escapes there are.
    ///
    /// @param bytes what the panel is said to take
    public static @Nullable String problem(MemorySegment data, long at, long bytes, int cols) {
        if (bytes < bytes(cols, 0)) {
            return "expected at least %d bytes, got %d".formatted(bytes(cols, 0), bytes);
        }
        for (int i = 0; i < ENTRIES; i++) {
            int entry = Words.word(data, at + 4 * i);
            if ((entry & ~0x7F80_0000) != 0) {
                return "entry %d of the table: expected an exponent shifted by 23, got 0x%08X".formatted(i, entry);
            }
        }
        for (int b = blocks(cols); b < (blocksAt(cols) - 64) * 8; b++) {
            if (flag(data, at, b)) {
                return "expected flags of %d blocks, got one for block %d".formatted(blocks(cols), b);
            }
        }
        long escapes = escapes(data, at, cols);
        if (bytes != bytes(cols, escapes)) {
            return "expected %d bytes for %d escapes, got %d".formatted(bytes(cols, escapes), escapes, bytes);
        }
        return null;
    }
}

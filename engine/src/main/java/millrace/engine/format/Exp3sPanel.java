package millrace.engine.format;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/// A panel of BF16 numbers in about 12 bits each, without loss, in the order in which a GPU's matrix unit takes them: what
/// the device has in place of a [PackedPanel].
///
/// A number is a *head*, the upper seven bits of its exponent, and a *tail*, the last bit of the exponent and the seven of
/// the mantissa. Three bits name one of the seven most frequent heads of the panel; with the sign they are a nibble. What
/// has another head, index 7, *escapes*: it stands in a list as it is.
///
/// ```
///  0              two words: heads 0 to 3 and 4 to 6, a byte each, the last byte zero
///  8              a word: 0, or 1 if the panel is raw
///  12             a word: where the lists begin, from the start of the panel
///  16             8 words: the first entry of each slice's list; zero for slices that are not
///  48             16 bytes of zero
///  64             ⌈cols / 64⌉ units of 64 columns, 1536 bytes each:
///                   512 bytes    tails of steps 0 and 1: 16 bytes for each of 32 lanes, 8 of each step
///                   512 bytes    the same of steps 2 and 3
///                   512 bytes    nibbles: 16 bytes for each lane, a word of each step
///  lists          of each slice: entries of two words, where and what, by place; then (0xFFFFFFFF, 0)
///                 zeros up to a multiple of 64
/// ```
///
/// Step `s` is columns `16 s` to `16 s + 15` of the unit. Lane `4 g + t` has eight numbers of it: number `4 p + 2 h + i` is
/// that of row `2 g + h` and column `4 t + 2 p + i`, for h, p, i in 0 and 1. Byte `j` of a step's tails and bits `4 j` to
/// `4 j + 3` of its nibbles are number `j`; the sign is the highest bit of the nibble. An entry's place is
/// `1024 unit + 256 step + 8 lane + number`. Units `s`, `s + S`, `s + 2 S`, … are slice `s` of S, which follows from the shape
/// of the matrix.
///
/// A *raw* panel has the numbers in full, 2048 bytes a unit: of step `s` at `512 s`, 16 bytes for each lane, number `j` in half
/// word `j`; its one list is empty. Missing rows and columns are zero bits everywhere.
public final class Exp3sPanel {
    /// Columns of a unit.
    public static final int UNIT = 64;
    /// The most slices.
    public static final int MAX_SLICES = 8;
    /// Bytes before the units.
    public static final int HEADER_BYTES = 64;
    private static final int UNIT_BYTES = 1536;
    private static final int RAW_UNIT_BYTES = 2048;
    private static final int UNIT_PLACES = 1024;
    private static final int STEP_PLACES = 256;
    private static final int ENTRY_BYTES = 8;
    private static final int RUN_BYTES = 512;
    private static final int LANE_BYTES = 16;
    private static final int HEADS = 7;
    private static final int ESCAPE = 7;
    /// Numbers that bear one escape: an escape costs a warp about as much time as decoding 64 numbers.
    private static final int NUMBERS_PER_ESCAPE = 200;

    private Exp3sPanel() {}

    public static int units(int cols) {
        return (cols + UNIT - 1) / UNIT;
    }

    /// Bytes of a panel, a multiple of 64.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    public static long bytes(short[] values, int rows, int cols, int slices) {
        int escapes = escapes(values, rows, cols, indices(heads(values, rows, cols)));
        return bytes(cols, raw(rows, cols, escapes), escapes, slices);
    }

    private static long bytes(int cols, boolean raw, int escapes, int slices) {
        long lists = ENTRY_BYTES * (raw ? 1L : (long) escapes + slices);
        return (listsAt(cols, raw) + lists + 63) / 64 * 64;
    }

    private static long listsAt(int cols, boolean raw) {
        return HEADER_BYTES + (long) units(cols) * (raw ? RAW_UNIT_BYTES : UNIT_BYTES);
    }

    private static boolean raw(int rows, int cols, int escapes) {
        return (long) escapes * NUMBERS_PER_ESCAPE > (long) rows * cols;
    }

    /// Writes a panel; returns its bytes.
    ///
    /// @param values row by row, `cols` each
    /// @param rows 1 to 16
    /// @param slices 1, 2, 4 or 8
    public static long encode(short[] values, int rows, int cols, int slices, MemorySegment out, long at) {
        int[] heads = heads(values, rows, cols);
        int[] indices = indices(heads);
        int escapes = escapes(values, rows, cols, indices);
        boolean raw = raw(rows, cols, escapes);
        long bytes = bytes(cols, raw, escapes, slices);
        out.asSlice(at, bytes).fill((byte) 0);
        Words.word(out, at + 8, raw ? 1 : 0);
        Words.word(out, at + 12, Math.toIntExact(listsAt(cols, raw)));
        if (raw) {
            for (int r = 0; r < rows; r++) {
                for (int k = 0; k < cols; k++) {
                    Words.half(out, at + rawAt(r, k), values[r * cols + k]);
                }
            }
            Words.word(out, at + listsAt(cols, true), -1);
            return bytes;
        }
        for (int i = 0; i < HEADS; i++) {
            Words.octet(out, at + i, (byte) heads[i]);
        }
        byte[] unit = new byte[UNIT_BYTES];
        for (int u = 0; u < units(cols); u++) {
            Arrays.fill(unit, (byte) 0);
            for (int r = 0; r < rows; r++) {
                for (int k = u * UNIT; k < Math.min(cols, (u + 1) * UNIT); k++) {
                    put(values[r * cols + k], indices, unit, place(r, k) % UNIT_PLACES);
                }
            }
            MemorySegment.copy(unit, 0, out, ValueLayout.JAVA_BYTE, at + unitAt(u, UNIT_BYTES), UNIT_BYTES);
        }
        lists(values, rows, cols, slices, indices, escapes, out, at);
        return bytes;
    }

    /// Puts tail and nibble of a number into its unit, which is zero there.
    private static void put(short value, int[] indices, byte[] unit, int place) {
        unit[tailAt(place)] = (byte) value;
        int nibble = value >>> 12 & 8 | indices[head(value)];
        unit[nibblesAt(place) + place % 8 / 2] |= (byte) (nibble << place % 2 * 4);
    }

    private static void lists(
            short[] values, int rows, int cols, int slices, int[] indices, int escapes, MemorySegment out, long at) {
        long[] entries = new long[escapes];
        int count = 0;
        for (int r = 0; r < rows; r++) {
            for (int k = 0; k < cols; k++) {
                short value = values[r * cols + k];
                if (indices[head(value)] == ESCAPE) {
                    // By slice, then by place.
                    long slice = k / UNIT % slices;
                    entries[count++] = slice << 48 | (long) place(r, k) << 16 | value & 0xFFFF;
                }
            }
        }
        Arrays.sort(entries);
        long next = at + listsAt(cols, false);
        int entry = 0;
        int i = 0;
        for (int slice = 0; slice < slices; slice++) {
            Words.word(out, at + 16 + 4 * slice, entry);
            for (; i < count && entries[i] >>> 48 == slice; i++) {
                Words.word(out, next, (int) (entries[i] >>> 16));
                Words.word(out, next + 4, (int) entries[i] & 0xFFFF);
                next += ENTRY_BYTES;
                entry++;
            }
            Words.word(out, next, -1);
            next += ENTRY_BYTES;
            entry++;
        }
    }

    /// Whether a panel is raw.
    public static boolean isRaw(MemorySegment data, long at) {
        return Words.word(data, at + 8) != 0;
    }

    /// A number of a panel: slow and exact.
    public static short number(MemorySegment data, long at, int row, int col, int slices) {
        if (isRaw(data, at)) {
            return Words.half(data, at + rawAt(row, col));
        }
        int place = place(row, col);
        long unit = at + unitAt(place / UNIT_PLACES, UNIT_BYTES);
        int nibble = Words.word(data, unit + nibblesAt(place)) >>> 4 * (place % 8) & 15;
        if ((nibble & 7) != ESCAPE) {
            int head = Words.octet(data, at + (nibble & 7));
            return (short) ((nibble & 8) << 12 | head << 8 | Words.octet(data, unit + tailAt(place)) & 0xFF);
        }
        int slice = col / UNIT % slices;
        long entry = at + Words.word(data, at + 12) + (long) ENTRY_BYTES * Words.word(data, at + 16 + 4 * slice);
        while (Words.word(data, entry) != place) {
            entry += ENTRY_BYTES;
        }
        return (short) Words.word(data, entry + 4);
    }

    /// Where a number stands among those of its panel.
    private static int place(int row, int col) {
        int inStep = col % 16;
        int lane = row / 2 * 4 + inStep / 4;
        int number = 2 * (row % 2 + 2 * (inStep % 4 / 2)) + inStep % 2;
        return col / UNIT * UNIT_PLACES + col % UNIT / 16 * STEP_PLACES + lane * 8 + number;
    }

    private static int step(int place) {
        return place % UNIT_PLACES / STEP_PLACES;
    }

    private static int lane(int place) {
        return place % STEP_PLACES / 8;
    }

    private static int tailAt(int place) {
        return step(place) / 2 * RUN_BYTES + lane(place) * LANE_BYTES + step(place) % 2 * 8 + place % 8;
    }

    private static int nibblesAt(int place) {
        return 2 * RUN_BYTES + lane(place) * LANE_BYTES + 4 * step(place);
    }

    private static long rawAt(int row, int col) {
        int place = place(row, col);
        long inUnit = step(place) * RUN_BYTES + lane(place) * LANE_BYTES + 2 * (place % 8);
        return unitAt(place / UNIT_PLACES, RAW_UNIT_BYTES) + inUnit;
    }

    private static long unitAt(int unit, int unitBytes) {
        return HEADER_BYTES + (long) unit * unitBytes;
    }

    private static int head(short value) {
        return value >>> 8 & 0x7F;
    }

    /// The most frequent heads, the most frequent first, of equals the lower; 0 beyond those that occur.
    private static int[] heads(short[] values, int rows, int cols) {
        int[] counts = new int[128];
        for (int i = 0; i < rows * cols; i++) {
            counts[head(values[i])]++;
        }
        int[] heads = new int[HEADS];
        for (int i = 0; i < HEADS; i++) {
            int best = 0;
            for (int h = 1; h < counts.length; h++) {
                if (counts[h] > counts[best]) {
                    best = h;
                }
            }
            if (counts[best] > 0) {
                heads[i] = best;
                counts[best] = 0;
            }
        }
        return heads;
    }

    /// The index of each head; 7 for those without.
    private static int[] indices(int[] heads) {
        int[] indices = new int[128];
        Arrays.fill(indices, ESCAPE);
        for (int i = HEADS - 1; i >= 0; i--) {
            indices[heads[i]] = i;
        }
        return indices;
    }

    private static int escapes(short[] values, int rows, int cols, int[] indices) {
        int escapes = 0;
        for (int i = 0; i < rows * cols; i++) {
            escapes += indices[head(values[i])] == ESCAPE ? 1 : 0;
        }
        return escapes;
    }
}

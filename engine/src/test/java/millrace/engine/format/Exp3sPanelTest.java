package millrace.engine.format;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class Exp3sPanelTest {
    private static final long SEED = 20261130;

    @Test
    void everyBitPatternShouldComeBack() {
        short[] all = new short[1 << 16];
        for (int i = 0; i < all.length; i++) {
            all[i] = (short) (i * 40503);
        }
        // 128 heads, of which a table has seven.
        assertThat(Exp3sPanel.isRaw(assertComesBack(all, 16, 4096, 8), 0)).isTrue();
        // Each pattern among zeros, where those with another head than six others escape.
        byte[] bytes = new byte[200_000];
        MemorySegment panel = MemorySegment.ofArray(bytes);
        for (int first = 0; first < all.length; first += 512) {
            short[] some = new short[16 * 6400];
            for (int i = 0; i < 512; i++) {
                some[i * 200] = (short) (first + i);
            }
            Exp3sPanel.encode(some, 16, 6400, 8, panel, 0);
            assertThat(Exp3sPanel.isRaw(panel, 0)).isFalse();
            for (int i = 0; i < 512; i++) {
                assertThat(Exp3sPanel.number(panel, 0, i * 200 / 6400, i * 200 % 6400, 8)).isEqualTo((short) (first + i));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 15, 16, 17, 63, 64, 65, 130, 511, 513, 1000})
    void panelsOfAnySizeShouldComeBack(int cols) {
        for (int rows : new int[] {1, 2, 15, 16}) {
            for (int slices : new int[] {1, 2, 8}) {
                for (double share : new double[] {0, 0.002, 0.3}) {
                    short[] values = PackedPanelTest.gaussian(new SplittableRandom(SEED), rows, cols, share);
                    assertComesBack(values, rows, cols, slices);
                }
            }
        }
    }

    @Test
    void gaussianWeightsShouldTakeThreeQuartersOfBf16() {
        short[] values = PackedPanelTest.gaussian(new SplittableRandom(SEED), 16, 4096, 0);
        double bf16 = Bf16Panel.bytes(4096);
        assertThat(Exp3sPanel.bytes(values, 16, 4096, 8) / bf16).isBetween(0.75, 0.755);
    }

    @Test
    void panelsOfManyEscapesShouldStayAsTheyAre() {
        short[] values = new short[16 * 1000];
        Arrays.fill(values, BFloat16.fromFloat(1));
        for (int h = 0; h < 7; h++) {
            values[h] = (short) (h << 8);
        }
        // Heads 0 to 5 and that of 1 are in the table; 6 escapes, and 79 more may.
        for (int i = 0; i < 79; i++) {
            values[100 + 2 * i] = (short) 0x7FC1;
        }
        assertThat(escapes(assertComesBack(values, 16, 1000, 4), 1000, 4)).isLessThanOrEqualTo(80);
        var random = new SplittableRandom(SEED);
        for (int i = 0; i < 1600; i++) {
            values[10 * i] = (short) random.nextInt();
        }
        MemorySegment raw = assertComesBack(values, 16, 1000, 4);
        assertThat(Exp3sPanel.isRaw(raw, 0)).isTrue();
        assertThat(raw.byteSize()).isEqualTo(64 + 16 * 2048 + 64);
    }

    /// Entries of the lists, less one of each that ends it.
    private static long escapes(MemorySegment panel, int cols, int slices) {
        assertThat(Exp3sPanel.isRaw(panel, 0)).isFalse();
        long count = 0;
        for (int slice = 0; slice < slices; slice++) {
            long entry = Words.word(panel, 12) + 8L * Words.word(panel, 16 + 4 * slice);
            int before = -1;
            for (; Words.word(panel, entry) != -1; entry += 8) {
                int place = Words.word(panel, entry);
                assertThat(place).isGreaterThan(before).isLessThan(1024 * Exp3sPanel.units(cols));
                assertThat(place / 1024 % slices).isEqualTo(slice);
                before = place;
                count++;
            }
        }
        return count;
    }

    private static MemorySegment assertComesBack(short[] values, int rows, int cols, int slices) {
        long size = Exp3sPanel.bytes(values, rows, cols, slices);
        byte[] bytes = new byte[(int) size + 64];
        Arrays.fill(bytes, (byte) 0x5A);
        MemorySegment panel = MemorySegment.ofArray(bytes);
        assertThat(Exp3sPanel.encode(values, rows, cols, slices, panel, 0)).isEqualTo(size).isEqualTo(size / 64 * 64);
        for (int i = 0; i < 64; i++) {
            assertThat(bytes[(int) size + i]).as("behind the panel").isEqualTo((byte) 0x5A);
        }
        int wrong = 0;
        for (int r = 0; r < rows; r++) {
            for (int k = 0; k < cols; k++) {
                wrong += Exp3sPanel.number(panel, 0, r, k, slices) == values[r * cols + k] ? 0 : 1;
            }
        }
        assertThat(wrong).as("%d × %d, %d slices, seed %d", rows, cols, slices, SEED).isZero();
        return panel.asSlice(0, size);
    }
}

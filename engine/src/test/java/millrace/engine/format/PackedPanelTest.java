package millrace.engine.format;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class PackedPanelTest {
    private static final long SEED = 20261130;

    @Test
    void everyBitPatternShouldComeBack() {
        short[] all = new short[1 << 16];
        for (int i = 0; i < all.length; i++) {
            all[i] = (short) (i * 40503);
        }
        // 4096 columns: 256 exponents, so that most weights escape.
        assertThat(PackedPanel.size(all, 16, 4096)).isEqualTo(-1);
        assertComesBack(all, 16, 4096);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 8, 9, 15, 16, 17, 80, 96, 100, 511, 513, 4096, 4104})
    void panelsOfAnySizeShouldComeBack(int cols) {
        for (int rows : new int[] {1, 2, 15, 16}) {
            for (double share : new double[] {0, 0.001, 0.01, 0.3}) {
                var random = new SplittableRandom(SEED);
                assertComesBack(gaussian(random, rows, cols, share), rows, cols);
            }
        }
    }

    /// The exact size follows from the number of escapes, and few exponents outside the table cost little.
    @Test
    void gaussianWeightsShouldTakeThreeQuartersOfBf16() {
        for (double share : new double[] {0, 0.01}) {
            short[] values = gaussian(new SplittableRandom(SEED), 16, 4096, share);
            double bf16 = Bf16Panel.bytes(4096);
            assertThat(PackedPanel.size(values, 16, 4096) / bf16).as("%s outliers", share).isLessThan(0.77);
        }
    }

    @Test
    void panelsThatGainNothingShouldStayInBf16() {
        var random = new SplittableRandom(SEED);
        assertThat(PackedPanel.size(gaussian(random, 16, 16, 0), 16, 16)).as("too short").isEqualTo(-1);
        short[] values = gaussian(random, 16, 1024, 0);
        for (int i = 0; i < values.length; i += 10) {
            values[i] = (short) random.nextInt();
        }
        assertThat(PackedPanel.size(values, 16, 1024)).as("one in ten escapes").isEqualTo(-1);
    }

    @Test
    void blocksWithoutEscapesShouldUseEntryFifteen() {
        // 16 exponents, each once in a row of 16 columns: no escapes, though every code occurs.
        short[] values = new short[16 * 16];
        for (int i = 0; i < values.length; i++) {
            values[i] = (short) (100 + i % 16 << 7);
        }
        MemorySegment panel = assertComesBack(values, 16, 16);
        assertThat(PackedPanel.escapes(panel, 0, 16)).isZero();
        assertThat(panel.byteSize()).isEqualTo(64 + 64 + 2 * 192 + 64);
        // One more exponent: the 15 weights of its block that have entry 15 escape too.
        values[3] = (short) (7 << 7);
        panel = assertComesBack(values, 16, 16);
        assertThat(PackedPanel.escapes(panel, 0, 16)).isEqualTo(16);
    }

    @Test
    void malformedPanelsShouldBeNamed() {
        short[] values = gaussian(new SplittableRandom(SEED), 16, 80, 0);
        for (int k = 0; k < 8; k++) {
            values[k] = (short) (10 + k << 7);
        }
        byte[] good = assertComesBack(values, 16, 80).toArray(ValueLayout.JAVA_BYTE);
        assertThat(problem(good, 80)).isNull();
        assertThat(problem(Arrays.copyOf(good, good.length - 64), 80))
                .isEqualTo("expected at least 2112 bytes, got 2048");
        assertThat(problem(Arrays.copyOf(good, good.length + 64), 80))
                .startsWith("expected 2112 bytes for ").endsWith(" escapes, got 2176");
        byte[] table = good.clone();
        table[4] |= 1;
        assertThat(problem(table, 80)).startsWith("entry 1 of the table: expected an exponent shifted by 23, got 0x");
        byte[] flags = good.clone();
        flags[64 + 2] = 1;
        assertThat(problem(flags, 80)).isEqualTo("expected flags of 10 blocks, got one for block 16");
        byte[] escapes = good.clone();
        Arrays.fill(escapes, 128, 128 + 64, (byte) 0xFF);
        assertThat(problem(escapes, 80)).isEqualTo("expected 2240 bytes for 128 escapes, got 2112");
    }

    private static String problem(byte[] panel, int cols) {
        return PackedPanel.problem(MemorySegment.ofArray(panel), 0, panel.length, cols);
    }

    private static MemorySegment assertComesBack(short[] values, int rows, int cols) {
        byte[] bytes = new byte[(int) PackedPanel.bytes(cols, rows * cols)];
        Arrays.fill(bytes, (byte) 0x5A);
        MemorySegment panel = MemorySegment.ofArray(bytes);
        long size = PackedPanel.encode(values, rows, cols, panel, 0);
        panel = panel.asSlice(0, size);
        long escapes = PackedPanel.escapes(panel, 0, cols);
        assertThat(size).isEqualTo(PackedPanel.bytes(cols, escapes));
        assertThat(PackedPanel.size(values, rows, cols)).isIn(-1L, size);
        assertThat(PackedPanel.problem(panel, 0, size, cols)).isNull();
        float[] row = new float[cols + 1];
        for (int lane = 0; lane < rows; lane++) {
            PackedPanel.row(panel, 0, cols, lane, row, 1);
            for (int k = 0; k < cols; k++) {
                int bits = Float.floatToRawIntBits(row[k + 1]);
                assertThat(bits >>> 16).as("lane %d, column %d, seed %d", lane, k, SEED)
                        .isEqualTo(values[lane * cols + k] & 0xFFFF);
            }
        }
        return panel;
    }

    /// Weights of a deviation of 0.02, a share of them ten to a thousand times as large.
    static short[] gaussian(SplittableRandom random, int rows, int cols, double outliers) {
        short[] values = new short[rows * cols];
        for (int i = 0; i < values.length; i++) {
            double value = 0.02 * random.nextGaussian();
            if (random.nextDouble() < outliers) {
                value *= Math.pow(10, random.nextDouble(1, 3));
            }
            values[i] = BFloat16.fromFloat((float) value);
        }
        return values;
    }
}

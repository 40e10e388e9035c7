package millrace.engine.format;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/// Panels of codes and scales.
final class GroupedPanelTest {
    private static final long SEED = 20261130;

    @ParameterizedTest
    @CsvSource({"INT8, 1", "INT8, 31", "INT8, 100", "INT8, 256", "INT4, 1", "INT4, 33", "INT4, 100", "INT4, 128",
        "FP8, 1", "FP8, 127", "FP8, 300", "FP8, 256"})
    void codesAndScalesShouldComeBack(WeightFormat format, int cols) {
        var random = new SplittableRandom(SEED);
        for (int rows : new int[] {1, 7, 16}) {
            int groups = format.groups(cols);
            byte[] codes = new byte[rows * cols];
            for (int i = 0; i < codes.length; i++) {
                codes[i] = switch (format) {
                    case INT4 -> (byte) random.nextInt(-8, 8);
                    case FP8 -> (byte) (random.nextInt(0x7F) | random.nextInt(2) << 7);
                    default -> (byte) random.nextInt(-127, 128);
                };
            }
            short[] scales = new short[rows * groups];
            float[] worth = new float[rows * groups];
            for (int i = 0; i < scales.length; i++) {
                scales[i] = BFloat16.fromFloat((float) random.nextDouble(-1, 1));
                worth[i] = BFloat16.toFloat(scales[i]);
            }
            MemorySegment panel = panel(format, cols);
            switch (format) {
                case INT8 -> Int8Panel.encode(codes, scales, rows, cols, panel, 64);
                case INT4 -> Int4Panel.encode(codes, scales, rows, cols, panel, 64);
                default -> Fp8Panel.encode(codes, worth, rows, cols, panel, 64);
            }
            float[] row = new float[cols + 3];
            for (int lane = 0; lane < 16; lane++) {
                Panels.codes(format, panel, 64, cols, lane, row, 2);
                for (int k = 0; k < cols; k++) {
                    byte code = lane < rows ? codes[lane * cols + k] : 0;
                    assertThat(row[k + 2]).isEqualTo(format == WeightFormat.FP8 ? Float8.toFloat(code) : code);
                }
                for (int g = 0; g < groups; g++) {
                    float scale = lane < rows ? worth[lane * groups + g] : 0;
                    assertThat(Panels.scale(format, panel, 64, lane, g)).isEqualTo(scale);
                }
            }
            assertThat(panel.get(ValueLayout.JAVA_BYTE, 63)).isEqualTo((byte) 0x5A);
            assertThat(panel.get(ValueLayout.JAVA_BYTE, 64 + format.panelBytes(cols))).isEqualTo((byte) 0x5A);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"INT8", "INT4", "FP8"})
    void weightsShouldBeNearTheirOriginals(WeightFormat format) {
        int cols = 200;
        var random = new SplittableRandom(SEED);
        float[] values = new float[16 * cols];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) (0.02 * random.nextGaussian());
        }
        Arrays.fill(values, 3 * cols, 3 * cols + format.group(), 0);
        MemorySegment panel = panel(format, cols);
        quantize(format, values, 16, cols, panel);
        double worst = 0;
        double noise = 0;
        double signal = 0;
        float[] row = new float[cols];
        for (int lane = 0; lane < 16; lane++) {
            Panels.weights(format, panel, 64, cols, lane, row, 0);
            for (int g = 0; g < format.groups(cols); g++) {
                int to = Math.min(cols, (g + 1) * format.group());
                double largest = 0;
                for (int k = g * format.group(); k < to; k++) {
                    largest = Math.max(largest, Math.abs(values[lane * cols + k]));
                }
                for (int k = g * format.group(); k < to; k++) {
                    double error = Math.abs(row[k] - values[lane * cols + k]);
                    noise += error * error;
                    signal += (double) values[lane * cols + k] * values[lane * cols + k];
                    if (largest == 0) {
                        assertThat(row[k]).isZero();
                    } else {
                        worst = Math.max(worst, error / largest);
                    }
                }
            }
        }
        // Half a step of 127 (with the rounding of the scale), of some 7, of the 32 between 256 and 448.
        assertThat(worst).isLessThan(switch (format) {
            case INT8 -> 0.5 / 127 * (1 + 0x1p-7);
            case INT4 -> 0.14;
            default -> 16.0 / 448;
        });
        assertThat(Math.sqrt(noise / signal)).isLessThan(switch (format) {
            case INT8 -> 0.006;
            case INT4 -> 0.085;
            default -> 0.027;
        });
    }

    /// A scale that is found by search is never worse than the plain ones.
    @Test
    void searchShouldNotLoseToThePlainScales() {
        var random = new SplittableRandom(SEED);
        float[] values = new float[32];
        for (int round = 0; round < 500; round++) {
            double shape = random.nextDouble(1, 4);
            for (int i = 0; i < 32; i++) {
                double g = random.nextGaussian();
                values[i] = (float) Math.copySign(Math.pow(Math.abs(g), shape), g);
            }
            MemorySegment panel = panel(WeightFormat.INT4, 32);
            Int4Panel.quantize(values, 1, 32, panel, 64);
            float[] row = new float[32];
            Panels.weights(WeightFormat.INT4, panel, 64, 32, 0, row, 0);
            float largest = 0;
            double error = 0;
            for (int i = 0; i < 32; i++) {
                error += Math.pow((double) row[i] - values[i], 2);
                largest = Math.abs(values[i]) > Math.abs(largest) ? values[i] : largest;
            }
            for (int code : new int[] {-8, 7}) {
                double scale = BFloat16.toFloat(BFloat16.fromFloat(largest / code));
                double plain = 0;
                for (float value : values) {
                    plain += Math.pow(Math.clamp(Math.rint(value / scale), -8, 7) * scale - value, 2);
                }
                assertThat(error).as("round %d, seed %d", round, SEED).isLessThanOrEqualTo(plain * (1 + 1e-12));
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"INT8", "INT4", "FP8"})
    void extremesShouldHold(WeightFormat format) {
        float[] values = new float[64];
        values[0] = Float.MAX_VALUE;
        values[1] = -Float.MAX_VALUE;
        values[40] = Float.MIN_VALUE;
        MemorySegment panel = panel(format, 64);
        quantize(format, values, 1, 64, panel);
        float[] row = new float[64];
        Panels.weights(format, panel, 64, 64, 0, row, 0);
        assertThat(row[0] / Float.MAX_VALUE).isCloseTo(1, within(0.15f));
        assertThat(row[1] / Float.MAX_VALUE).isCloseTo(-1, within(0.15f));
        assertThat(row[40]).isCloseTo(0, within(1e-38f));
    }

    @Test
    void weightsThatAreNotFiniteShouldBeRefused() {
        float[] values = new float[2 * 40];
        values[40 + 37] = Float.NaN;
        for (WeightFormat format : new WeightFormat[] {WeightFormat.INT8, WeightFormat.INT4, WeightFormat.FP8}) {
            assertThatThrownBy(() -> quantize(format, values, 2, 40, panel(format, 40)))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("column 37: expected a finite weight, got NaN");
        }
        byte[] codes = new byte[40];
        codes[9] = (byte) 0xFF;
        MemorySegment panel = panel(WeightFormat.FP8, 40);
        assertThatThrownBy(() -> Fp8Panel.encode(codes, new float[] {1}, 1, 40, panel, 64))
                .hasMessage("column 9: expected a number, got the FP8 NaN 0xFF");
        float[] infinite = {Float.POSITIVE_INFINITY};
        assertThatThrownBy(() -> Fp8Panel.encode(new byte[40], infinite, 1, 40, panel, 64))
                .hasMessage("column 0: expected a finite scale, got Infinity");
    }

    private static void quantize(WeightFormat format, float[] values, int rows, int cols, MemorySegment panel) {
        switch (format) {
            case INT8 -> Int8Panel.quantize(values, rows, cols, panel, 64);
            case INT4 -> Int4Panel.quantize(values, rows, cols, panel, 64);
            default -> Fp8Panel.quantize(values, rows, cols, panel, 64);
        }
    }

    /// Room for a panel at 64, and for 64 bytes after it, none of them zero.
    private static MemorySegment panel(WeightFormat format, int cols) {
        byte[] bytes = new byte[(int) format.panelBytes(cols) + 128];
        Arrays.fill(bytes, (byte) 0x5A);
        return MemorySegment.ofArray(bytes);
    }
}

package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class ExpMathTest {
    @Test
    void expShouldBeWithinTwoUlpOfTheTrueValue() {
        double worst = 0;
        float at = 0;
        // Every 499th of all numbers from -88 to 89: about four million.
        for (int bits = 0; bits < Float.floatToRawIntBits(89f); bits += 499) {
            for (int sign = 0; sign < 2; sign++) {
                float x = Float.intBitsToFloat(bits | sign << 31);
                double exact = StrictMath.exp(x);
                if (exact < Float.MIN_NORMAL || exact > Float.MAX_VALUE) {
                    continue;
                }
                double error = Math.abs(ExpMath.exp(x) - exact) / Math.ulp((float) exact);
                if (error > worst) {
                    worst = error;
                    at = x;
                }
            }
        }
        assertThat(worst).as("ulp at %s", at).isLessThan(2);
    }

    @Test
    void smallResultsShouldBeDenormalThenZero() {
        for (float x = -87; x > -104; x -= 0.01f) {
            double error = Math.abs(ExpMath.exp(x) - StrictMath.exp(x));
            assertThat(error).as("exp(%s)", x).isLessThanOrEqualTo(2.0 * Float.MIN_VALUE + 2e-7 * StrictMath.exp(x));
        }
        assertThat(ExpMath.exp(-200)).isZero();
    }

    @ParameterizedTest
    @CsvSource({"0, 1", "-Infinity, 0", "Infinity, Infinity", "89, Infinity", "3.4e38, Infinity", "NaN, NaN"})
    void edgesShouldBeThoseOfTheFunction(float x, float expected) {
        assertThat(Float.compare(ExpMath.exp(x), expected)).isZero();
    }

    @Test
    void sigmoidShouldGoFromZeroToOne() {
        assertThat(ExpMath.sigmoid(0)).isEqualTo(0.5f);
        assertThat(ExpMath.sigmoid(200)).isEqualTo(1);
        assertThat(ExpMath.sigmoid(-200)).isZero();
    }
}

package millrace.engine.format;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class Float8Test {
    @ParameterizedTest
    @CsvSource({
        "0x00, 0", "0x80, -0", "0x01, 0.001953125", "0x07, 0.013671875", "0x08, 0.015625", "0x38, 1", "0x39, 1.125",
        "0xB8, -1", "0x77, 240", "0x78, 256", "0x7E, 448", "0xFE, -448"
    })
    void codesShouldHaveTheirValues(String code, float value) {
        assertThat(Float8.toFloat((byte) (int) Integer.decode(code))).isEqualTo(value);
    }

    @Test
    void everyCodeShouldBeSignExponentAndMantissa() {
        for (int code = 0; code < 256; code++) {
            int exponent = code >> 3 & 15;
            int mantissa = code & 7;
            double magnitude = exponent == 0 ? mantissa * 0x1p-9 : (8 + mantissa) * Math.pow(2, exponent - 10);
            float value = Float8.toFloat((byte) code);
            if (code == 0x7F || code == 0xFF) {
                assertThat(value).isNaN();
                assertThat(Float8.isNaN((byte) code)).isTrue();
            } else {
                assertThat(value).isEqualTo((float) Math.copySign(magnitude, code < 128 ? 1.0 : -1.0));
                assertThat(Float8.isNaN((byte) code)).isFalse();
                assertThat(Float8.fromFloat(value)).as("code %d", code).isEqualTo((byte) code);
            }
        }
    }

    @Test
    void roundingShouldBeToTheNearestAndTiesToEven() {
        var random = new SplittableRandom(5);
        for (int i = 0; i < 20_000; i++) {
            float x = (float) (random.nextDouble(-2, 2) * Math.pow(2, random.nextInt(-12, 10)));
            float got = Float8.toFloat(Float8.fromFloat(x));
            for (int code = 0; code < 256; code++) {
                if (!Float8.isNaN((byte) code)) {
                    float other = Float8.toFloat((byte) code);
                    assertThat(Math.abs(x - got)).as("%s, seed 5", x).isLessThanOrEqualTo(Math.abs(x - other));
                }
            }
        }
        assertThat(Float8.fromFloat(1.0625f)).isEqualTo((byte) 0x38);
        assertThat(Float8.fromFloat(1.1875f)).isEqualTo((byte) 0x3A);
        assertThat(Float8.fromFloat(1e9f)).isEqualTo((byte) 0x7E);
        assertThat(Float8.fromFloat(Float.NaN)).isEqualTo((byte) 0x7F);
    }
}

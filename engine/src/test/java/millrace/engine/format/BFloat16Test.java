package millrace.engine.format;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class BFloat16Test {
    @Test
    void everyValueShouldSurviveTheWayThroughF32() {
        for (int bits = 0; bits < 1 << 16; bits++) {
            float value = BFloat16.toFloat((short) bits);
            short back = BFloat16.fromFloat(value);
            if (Float.isNaN(value)) {
                assertThat(BFloat16.toFloat(back)).isNaN();
            } else {
                assertThat(back).isEqualTo((short) bits);
            }
        }
    }

    @Test
    void roundingShouldBeToTheNearestAndTiesToEven() {
        assertThat(BFloat16.fromFloat(Float.intBitsToFloat(0x3F80_8000))).isEqualTo((short) 0x3F80);
        assertThat(BFloat16.fromFloat(Float.intBitsToFloat(0x3F81_8000))).isEqualTo((short) 0x3F82);
        assertThat(BFloat16.fromFloat(Float.intBitsToFloat(0x3F80_8001))).isEqualTo((short) 0x3F81);
        assertThat(BFloat16.fromFloat(Float.MAX_VALUE)).isEqualTo((short) 0x7F80);
        assertThat(BFloat16.fromFloat(-0f)).isEqualTo((short) 0x8000);
        long seed = 7;
        var random = new SplittableRandom(seed);
        for (int i = 0; i < 100_000; i++) {
            float x = Float.intBitsToFloat(random.nextInt());
            if (Math.abs(x) < 3e38f) {
                float y = BFloat16.toFloat(BFloat16.fromFloat(x));
                float step = Float.intBitsToFloat((Float.floatToRawIntBits(x) & 0x7F80_0000)) * 0x1p-7f;
                assertThat(Math.abs((double) x - y))
                        .as("%s, seed %d", x, seed)
                        .isLessThanOrEqualTo(Math.max(step, Float.intBitsToFloat(1 << 16)) / 2.0);
            }
        }
    }
}

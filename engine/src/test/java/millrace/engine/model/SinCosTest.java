package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

final class SinCosTest {
    @Test
    void errorShouldStayBelowTenToTheMinusFifteen() {
        long seed = 3;
        var random = new SplittableRandom(seed);
        double worst = 0;
        for (int i = 0; i < 400_000; i++) {
            double x = StrictMath.scalb(random.nextDouble(-1, 1), random.nextInt(-20, 31));
            worst = Math.max(worst, Math.abs(SinCos.sin(x) - StrictMath.sin(x)));
            worst = Math.max(worst, Math.abs(SinCos.cos(x) - StrictMath.cos(x)));
        }
        assertThat(worst).as("seed %d", seed).isLessThan(1e-15);
    }

    @Test
    void wholePositionsShouldBeExactToo() {
        double worst = 0;
        for (int position = 0; position < 2_000_000; position += 7) {
            worst = Math.max(worst, Math.abs(SinCos.cos(position) - StrictMath.cos(position)));
        }
        assertThat(worst).isLessThan(1e-15);
        assertThat(SinCos.cos(0)).isEqualTo(1);
        assertThat(SinCos.sin(0)).isZero();
    }
}

package millrace.streams.console;

import static org.assertj.core.api.Assertions.assertThat;

import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;

class HistogramTest {
    private static final double[] BOUNDS = {0.1, 0.2, 0.4, Double.POSITIVE_INFINITY};
    private static final Histogram NOTHING = new Histogram(BOUNDS, new double[4]);

    @Test
    void interpolatesWithinItsBucket() {
        Histogram now = new Histogram(BOUNDS, new double[] {50, 90, 100, 100});
        assertThat(now.quantileSince(NOTHING, 0.5)).isEqualTo(0.1);
        assertThat(now.quantileSince(NOTHING, 0.7)).isCloseTo(0.15, Offset.offset(1e-9));
        assertThat(now.quantileSince(NOTHING, 0.99)).isCloseTo(0.38, Offset.offset(1e-9));
    }

    @Test
    void countsOnlyWhatCameSince() {
        Histogram earlier = new Histogram(BOUNDS, new double[] {1_000, 1_000, 1_000, 1_000});
        Histogram now = new Histogram(BOUNDS, new double[] {1_000, 1_000, 1_010, 1_010});
        assertThat(now.quantileSince(earlier, 0.5)).isCloseTo(0.3, Offset.offset(1e-9));
        assertThat(now.quantileSince(now, 0.5)).as("nothing came").isNaN();
    }

    @Test
    void saysTheLastBoundOfWhatIsBeyondIt() {
        assertThat(new Histogram(BOUNDS, new double[] {0, 0, 0, 5}).quantileSince(NOTHING, 0.5)).isEqualTo(0.4);
    }

    /// A series that is new has other bounds than what was there before it.
    @Test
    void beginsAnewWithOtherBounds() {
        Histogram before = new Histogram(new double[] {Double.POSITIVE_INFINITY}, new double[] {3});
        assertThat(new Histogram(BOUNDS, new double[] {0, 10, 10, 10}).quantileSince(before, 0.5)).isCloseTo(0.15, Offset.offset(1e-9));
    }
}

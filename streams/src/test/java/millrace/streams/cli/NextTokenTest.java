package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.junit.jupiter.api.Test;

class NextTokenTest {
    /// Logits of these probabilities, moved by a constant, which changes no probability.
    private static float[] logits(double shift, double... probabilities) {
        float[] logits = new float[probabilities.length];
        for (int i = 0; i < logits.length; i++) {
            logits[i] = (float) (Math.log(probabilities[i]) + shift);
        }
        return logits;
    }

    private static double divergence(float[] p, float[] q) {
        return NextToken.divergence(
                p, 0, NextToken.logSum(p, 0, p.length), q, 0, NextToken.logSum(q, 0, q.length), p.length);
    }

    @Test
    void divergenceOfKnownDistributions() {
        float[] p = logits(3, 0.5, 0.25, 0.25);
        float[] q = logits(-2, 0.25, 0.25, 0.5);
        assertThat(divergence(p, q)).isCloseTo(0.25 * Math.log(2), within(1e-6));
        float[] uneven = logits(0, 0.9, 0.05, 0.05);
        assertThat(divergence(p, uneven))
                .as("0.5 ln(0.5 / 0.9) + 0.5 ln(0.25 / 0.05)")
                .isCloseTo(0.5 * Math.log(0.5 / 0.9) + 0.5 * Math.log(5), within(1e-6));
        assertThat(divergence(uneven, p)).as("not the same the other way round")
                .isCloseTo(0.9 * Math.log(1.8) + 0.1 * Math.log(0.2), within(1e-6));
    }

    @Test
    void divergenceOfEqualRowsIsNothing() {
        float[] row = logits(11, 0.7, 0.1, 0.1, 0.05, 0.05);
        assertThat(divergence(row, row.clone())).isEqualTo(0.0);
    }

    @Test
    void rowsAreFoundAtTheirOffsets() {
        float[] p = {99, 1, 2, 3, 99};
        float[] q = {-7, -7, 3, 2, 1};
        double logSum = NextToken.logSum(p, 1, 3);
        assertThat(logSum).isCloseTo(Math.log(Math.exp(1) + Math.exp(2) + Math.exp(3)), within(1e-12));
        assertThat(NextToken.logSum(q, 2, 3)).isEqualTo(NextToken.logSum(new float[] {3, 2, 1}, 0, 3));
        assertThat(NextToken.divergence(p, 1, logSum, q, 2, NextToken.logSum(q, 2, 3), 3))
                .isEqualTo(divergence(new float[] {1, 2, 3}, new float[] {3, 2, 1}));
        assertThat(NextToken.largest(p, 1, 3)).isEqualTo(2);
    }

    @Test
    void hugeLogitsDoNotOverflow() {
        float[] sure = {3e38f, -3e38f, 0};
        float[] other = {-3e38f, 3e38f, 0};
        assertThat(NextToken.logSum(sure, 0, 3)).isEqualTo(3e38f);
        assertThat(divergence(sure, sure)).isEqualTo(0.0);
        assertThat(divergence(sure, other)).isPositive().isFinite();
        assertThat(divergence(new float[] {1000, 0, 0}, new float[] {1000, 10, 0})).isEqualTo(0.0);
    }

    @Test
    void theLowestOfEqualTokensIsFirst() {
        assertThat(NextToken.largest(new float[] {-5, -1, -1, -2}, 0, 4)).isEqualTo(1);
        assertThat(NextToken.largest(new float[] {-0.0f, 0.0f}, 0, 2)).isZero();
    }

    @Test
    void percentilesAreValuesThatOccur() {
        double[] hundred = new double[100];
        for (int i = 0; i < 100; i++) {
            hundred[i] = i + 1;
        }
        assertThat(DivergenceScore.rank(hundred, 0.99)).isEqualTo(99);
        assertThat(DivergenceScore.rank(new double[] {4}, 0.99)).isEqualTo(4);
        assertThat(DivergenceScore.rank(new double[] {1, 2, 3}, 0.99)).isEqualTo(3);
    }

    @Test
    void windowsCoverTheTextOnce() {
        TextWindows windows = TextWindows.of(List.of(1, 2, 3, 4, 5, 6, 7), 3, "text");
        assertThat(windows.all()).containsExactly(List.of(1, 2, 3), List.of(4, 5, 6), List.of(7));
        assertThat(windows.count()).isEqualTo(3);
        assertThat(windows.predicted()).isEqualTo(4);
        assertThatThrownBy(() -> TextWindows.of(List.of(1), 3, "text"))
                .hasMessage("text: expected at least 2 token ids, got 1");
    }
}

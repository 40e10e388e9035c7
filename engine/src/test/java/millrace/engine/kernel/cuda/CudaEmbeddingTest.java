package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Rows;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Embedding rows on the stand-in have the bits of [Matrix#row].
@Tag(DeviceContract.TAG)
final class CudaEmbeddingTest {
    private static ProjectionLab lab;
    private static CudaEmbedding embedding;

    @BeforeAll
    static void open() {
        lab = new ProjectionLab();
        embedding = new CudaEmbedding(lab.gpu, lab.tensors);
    }

    @AfterAll
    static void close() {
        if (lab != null) {
            lab.close();
        }
    }

    @ParameterizedTest
    @EnumSource
    void rowsShouldHaveTheBitsOfTheHost(WeightFormat format) {
        for (int cols : new int[] {1, 63, 700}) {
            for (double outliers : new double[] {0, 0.003, 0.05}) {
                Matrix table = lab.matrix(format, 37, cols, 1, outliers);
                int[] tokens = {36, 0, 17, 17, 1, 15};
                Rows y = lab.rows(7, cols, cols + 3);
                embedding.embed(y, table, lab.ints(tokens), tokens.length, 0);
                float[] got = lab.get(y, 7);
                float[] expected = new float[cols];
                for (int t = 0; t < tokens.length; t++) {
                    table.row(tokens[t], expected, 0);
                    assertThat(bits(Arrays.copyOfRange(got, t * cols, (t + 1) * cols)))
                            .as("%s, token %d, %s outliers", table, tokens[t], outliers)
                            .containsExactly(bits(expected));
                }
                assertThat(got[6 * cols]).isNaN();
            }
        }
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(values[i]);
        }
        return bits;
    }

    @Test
    void rowsBeyondTheLiveOnesAndTokensBeyondTheTableShouldNotBeRead() {
        Matrix table = lab.matrix(WeightFormat.PACKED, 5, 40, 2);
        Rows y = lab.rows(4, 40, 40);
        long tokens = lab.ints(4, -1, 5, 1 << 30);
        lab.put(y, new float[4 * 40]);
        embedding.embed(y, table, tokens, 4, lab.ints(3));
        float[] got = lab.get(y, 4);
        float[] expected = new float[40];
        table.row(4, expected, 0);
        assertThat(Arrays.copyOf(got, 40)).containsExactly(expected);
        for (int i = 40; i < 120; i++) {
            assertThat(got[i]).isNaN();
        }
        assertThat(Arrays.copyOfRange(got, 120, 160)).containsOnly(0);
    }

    @Test
    void rowsOfAnotherWidthShouldBeRefused() {
        Matrix table = lab.matrix(WeightFormat.BF16, 5, 40, 3);
        Rows y = lab.rows(2, 39, 39);
        assertThatThrownBy(() -> embedding.embed(y, table, lab.ints(0), 1, 0))
                .hasMessage("embed: 1 rows of 5 × 40 bf16 into 2 device rows of 39");
        assertThatThrownBy(() -> embedding.embed(Rows.allocate(2, 40), table, lab.ints(0), 1, 0))
                .hasMessage("embed: 1 rows of 5 × 40 bf16 into 0 device rows of 40");
    }
}

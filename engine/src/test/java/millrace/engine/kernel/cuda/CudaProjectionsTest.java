package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Products on the stand-in against exact sums and the scalar loops, and their bits against one another.
final class CudaProjectionsTest {
    /// Rows and columns: single ones, odd ones, less and more than a panel, than a group and than a unit, and with every
    /// number of slices.
    private static final int[][] SHAPES = {
        {1, 1}, {3, 2}, {16, 31}, {17, 33}, {33, 64}, {2, 65}, {40, 127}, {15, 130}, {20, 577}
    };

    private static ProjectionLab lab;

    @BeforeAll
    static void open() {
        lab = new ProjectionLab();
    }

    @AfterAll
    static void close() {
        if (lab != null) {
            lab.close();
        }
    }

    @ParameterizedTest
    @EnumSource
    void errorsShouldStayBelowTheirBoundsForEveryShape(WeightFormat format) {
        double worst = 0;
        try (var cpu = new CpuKernels(new ScalarLoops(), 1)) {
            for (int[] shape : SHAPES) {
                int n = 1 + shape[1] % 10;
                Matrix w = lab.matrix(format, shape[0], shape[1], 7);
                float[] x = lab.array(n * shape[1], 8);
                float[] bias = shape[0] % 2 == 0 ? null : lab.array(shape[0], 9);
                if (bias != null) {
                    lab.tensors.adopt(bias);
                }
                float[] y = lab.product(w, bias, x, n);
                double share = ProjectionLab.worst(w, bias, x, n, y);
                assertThat(share).as("%s, %d rows", w, n).isLessThanOrEqualTo(1);
                worst = Math.max(worst, share);
                Rows expected = Rows.allocate(n, shape[0]);
                cpu.project(new Projections(1).add(expected, w, bias, new Rows(x, 0, shape[1], shape[1]), n));
                for (int i = 0; i < y.length; i++) {
                    assertThat(y[i]).isCloseTo(expected.values()[i], Offset.offset(1e-5f));
                }
            }
        }
        // The bound is for the worst case of a device that cuts; one that rounds stays far below it.
        assertThat(worst).isLessThan(0.2).isPositive();
    }

    @ParameterizedTest
    @EnumSource
    void aRowShouldHaveTheSameBitsAloneAndAmongOthersInEveryShapeOfBlock(WeightFormat format) {
        for (int[] shape : new int[][] {{23, 577}, {150, 130}}) {
            int most = 17;
            Matrix w = lab.matrix(format, shape[0], shape[1], 3);
            float[] x = lab.array(most * shape[1], 4);
            float[] alone = new float[most * shape[0]];
            for (int r = 0; r < most; r += 8) {
                float[] row = Arrays.copyOfRange(x, r * shape[1], (r + 1) * shape[1]);
                System.arraycopy(lab.product(w, null, row, 1), 0, alone, r * shape[0], shape[0]);
            }
            for (int block = 0; block < 3; block++) {
                lab.projections.force(block);
                for (int n : new int[] {2, 9, 17}) {
                    float[] all = lab.product(w, null, x, n);
                    for (int r = 0; r < n; r += 8) {
                        assertThat(Arrays.copyOfRange(all, r * shape[0], (r + 1) * shape[0]))
                                .as("%s, row %d of %d, shape %d", w, r, n, block)
                                .containsExactly(Arrays.copyOfRange(alone, r * shape[0], (r + 1) * shape[0]));
                    }
                }
            }
            lab.projections.force(-1);
        }
    }
}

package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Random;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Rows;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Digests of results, so that machines can be compared that never meet.
///
/// Operations that have the processor's bits have one digest everywhere, and it stands here. Those of products are a
/// device's own, and are printed: `millrace gpu check` compares those of the compiled kernels and of the PTX.
@Tag(DeviceContract.TAG)
class RecordedBitsTest {
    private static final String ELEMENTWISE = "ed110a180702b3464ff5c604a24c48886e03faa8085b9490a9ca62810136ba60";

    @Test
    void elementwiseOperationsGiveTheRecordedBits() throws NoSuchAlgorithmException {
        var random = new Random(7);
        int rows = 37;
        int width = 6 * 128;
        Rows host = DeviceLab.view(random, rows, width, 0, 0);
        Rows other = DeviceLab.view(random, rows, width, 0, 0);
        Rows angles = DeviceLab.view(random, rows, 64, 0, 0);
        float[] weight = new float[width];
        for (int i = 0; i < width; i++) {
            weight[i] = (float) random.nextGaussian();
        }
        try (Gpu gpu = StandIn.open()) {
            gpu.own();
            var lab = new DeviceLab(gpu);
            var device = new CudaElementwise(gpu);
            Rows x = lab.rows(host);
            Rows up = lab.rows(other);
            device.rmsNorm(x, x, lab.floats(weight), width, 1e-5f, rows, 1, 0);
            device.rotate(x, rows, 6, 128, 64, lab.rows(angles), true, 0);
            device.swiglu(x, up, rows, 0);
            device.add(x, up, rows, 0);
            device.rotate(x, rows, 6, 128, 0, lab.rows(angles), false, 0);
            assertThat(digest(lab.values(x))).isEqualTo(ELEMENTWISE);
        }
    }

    @ParameterizedTest
    @EnumSource
    void productsHaveBitsToCompare(WeightFormat format) throws NoSuchAlgorithmException {
        try (ProjectionLab lab = new ProjectionLab()) {
            float[] y = lab.product(lab.matrix(format, 80, 640, 3), null, lab.array(9 * 640, 4), 9);
            System.out.printf("BITS %s %s%n", format.id(), digest(y));
            assertThat(y).doesNotContain(Float.NaN);
        }
    }

    private static String digest(float[] values) throws NoSuchAlgorithmException {
        ByteBuffer bytes = ByteBuffer.allocate(Float.BYTES * values.length);
        bytes.asFloatBuffer().put(values);
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes.array()));
    }
}

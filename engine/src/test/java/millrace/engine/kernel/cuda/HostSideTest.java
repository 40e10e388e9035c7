package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import millrace.engine.CudaConfig;
import millrace.engine.kernel.cpu.ThreadTeam;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Activations on their way to the device and back.
final class HostSideTest {
    private static final CudaConfig CONFIG = CudaConfig.STANDIN.withMemoryBytes(16 << 20);

    /// Some that one thread takes, and some that several share.
    @ParameterizedTest
    @ValueSource(ints = {1, 65_536, 200_001})
    void whatWasSentShouldComeBackAndNothingElse(int floats) {
        StandIn.assumePresent();
        try (Gpu gpu = Gpu.open(CONFIG);
                ThreadTeam team = new ThreadTeam(3)) {
            float[] values = new float[floats + 1];
            for (int i = 0; i < values.length; i++) {
                values[i] = i;
            }
            float[] expected = values.clone();
            var side = new HostSide(gpu, team, values, 1);
            side.send(values.length);
            gpu.synchronize();
            Arrays.fill(values, -1);
            expected[floats] = -1;
            side.queueFetch(floats);
            gpu.synchronize();
            side.take(floats);
            assertThat(values).containsExactly(expected);
        }
    }

    @Test
    void whatIsTakenShouldBeWhatWasFetched() {
        StandIn.assumePresent();
        try (Gpu gpu = Gpu.open(CONFIG);
                ThreadTeam team = new ThreadTeam(1);
                StandIn.Setting setting = StandIn.with("lazy", 1)) {
            float[] values = {1, 2, 3};
            var side = new HostSide(gpu, team, values, 1);
            setting.during(() -> {
                side.send(3);
                side.queueFetch(2);
                Arrays.fill(values, -1);
                gpu.synchronize();
                side.take(2);
            });
            assertThat(values).containsExactly(1, 2, -1);
        }
    }
}

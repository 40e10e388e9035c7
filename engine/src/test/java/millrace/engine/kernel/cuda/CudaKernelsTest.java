package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import millrace.engine.CudaConfig;
import millrace.engine.DeviceException;
import org.junit.jupiter.api.Test;

final class CudaKernelsTest {
    private static final int THREADS = 4;

    @Test
    void deviceWithTooLittleMemoryShouldLeaveNothingBehind() {
        StandIn.assumePresent();
        CudaKernels.open(CudaConfig.STANDIN.withMemoryBytes(16 << 20), THREADS).close();
        var standin = StandinOptions.ofTheDriver();
        long threads = threads();
        long bytes = standin.count("bytes");
        assertThatThrownBy(() -> CudaKernels.open(CudaConfig.STANDIN.withMemoryBytes(256), THREADS))
                .isInstanceOfSatisfying(DeviceException.class, e -> assertThat(e.code()).isEqualTo("CUDA_MEMORY"));
        assertThat(threads()).as("threads of the host").isEqualTo(threads);
        assertThat(standin.count("bytes")).as("bytes of the device").isEqualTo(bytes);
    }

    /// Those that pack weights, and have not ended.
    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("millrace-kernel-")).count();
    }
}

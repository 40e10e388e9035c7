package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Objects;
import millrace.engine.CudaConfig;
import org.junit.jupiter.api.Test;

class DriverImportsTest {
    @Test
    void readsWhatJCudaAsksFor() {
        byte[] library = Objects.requireNonNull(CudaLibraries.resource("lib/libJCudaDriver-12.6.0-linux-x86_64.so"));
        assertThat(DriverImports.of(library))
                .hasSizeGreaterThan(300)
                .contains("cuInit", "cuLaunchKernel", "cuGraphLaunch", "cuMemcpyHtoDAsync_v2")
                .allMatch(name -> name.startsWith("cu"));
    }

    @Test
    void theStandInHasWhatJCudaAsksFor() {
        StandIn.assumePresent();
        assertThat(CudaLibraries.missing(CudaConfig.Driver.STANDIN)).isEmpty();
    }

    @Test
    void refusesOtherBytes() {
        assertThatThrownBy(() -> DriverImports.of(new byte[100]))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("library: expected ELF of 64 bits, little-endian");
    }
}

package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import millrace.engine.Device;
import millrace.engine.kernel.cuda.CudaProbe;
import millrace.engine.kernel.cuda.StandIn;
import millrace.engine.kernel.ffi.NativeTier;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;

final class BackendTest {
    private static final String MISSING = "no library for linux-mips in the jar";

    @Test
    void autoShouldTakeNativeLoopsWhereTheLibraryIs() {
        String missing = NativeTier.missing(new ScalarLoops());
        assumeTrue(missing == null, "no native kernels here: " + missing);
        for (String name : new String[] {"auto", "native"}) {
            try (Backend backend = Backend.open(name, 2)) {
                assertThat(backend.name()).isEqualTo("native");
                assertThat(backend.reason()).matches((name.equals("auto") ? "fastest of this machine" : "asked for")
                        + "; AVX(2|-512), library from .+, 2 threads");
            }
        }
    }

    @Test
    void autoShouldTakeNativeLoopsWithoutTheVectorModule() {
        assumeTrue(NativeTier.missing(new ScalarLoops()) == null);
        try (Backend backend = Backend.open("auto", 1, false, null)) {
            assertThat(backend.name()).isEqualTo("native");
        }
    }

    @Test
    void autoShouldTakeVectorsWhereTheModuleIsAndNoLibrary() {
        try (Backend backend = Backend.open("auto", 2, true, MISSING)) {
            assertThat(backend.name()).isEqualTo("vector");
            assertThat(backend.reason()).matches("fastest of this JVM \\(not native: no library for linux-mips in the jar\\); "
                    + "(128|256|512) bits, 2 threads");
        }
    }

    /// A profile names bits: a backend that gives others must not have this one, and this one's never change.
    @Test
    void backendsOfTheProcessorShouldHaveOneProfile() {
        for (String name : new String[] {"scalar", "vector", "auto"}) {
            try (Backend backend = Backend.open(name, 1)) {
                assertThat(backend.profile()).as(name).isEqualTo("cpu-strict/v3");
            }
        }
    }

    @Test
    void autoShouldSayWhyItIsScalar() {
        try (Backend backend = Backend.open("auto", 1, false, MISSING)) {
            assertThat(backend.name()).isEqualTo("scalar");
            assertThat(backend.reason())
                    .isEqualTo("the module jdk.incubator.vector is missing: start java with "
                            + "--add-modules jdk.incubator.vector (not native: no library for linux-mips in the jar); 1 thread");
        }
    }

    @Test
    void vectorAskedForAndMissingShouldStopTheStart() {
        assertThatThrownBy(() -> Backend.open("vector", 1, false, null))
                .isInstanceOfSatisfying(
                        BackendException.class, e -> assertThat(e.code()).isEqualTo("BACKEND_UNAVAILABLE"))
                .hasMessage("backend \"vector\": expected the module jdk.incubator.vector in this JVM, got none; "
                        + "start java with --add-modules jdk.incubator.vector");
    }

    @Test
    void nativeAskedForAndMissingShouldStopTheStart() {
        assertThatThrownBy(() -> Backend.open("native", 1, true, MISSING))
                .isInstanceOfSatisfying(
                        BackendException.class, e -> assertThat(e.code()).isEqualTo("BACKEND_UNAVAILABLE"))
                .hasMessage("backend \"native\": expected the kernel library of this machine, got none: "
                        + "no library for linux-mips in the jar; set the backend to auto or vector");
    }

    @Test
    void unknownNameShouldBeRefused() {
        assertThatThrownBy(() -> Backend.open("cuda", 1))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("BACKEND_UNKNOWN"))
                .hasMessage("backend: expected auto, native, vector or scalar, got \"cuda\"");
    }

    @Test
    void autoShouldSayWhyItIsNotCuda() {
        String missing = CudaProbe.missing(CudaConfig.SYSTEM);
        assumeTrue(missing != null, "a device is here");
        try (Backend backend = Backend.open("auto", 1, CudaConfig.SYSTEM)) {
            assertThat(backend.name()).isNotEqualTo("cuda");
            assertThat(backend.reason()).endsWith("; not cuda: " + missing);
            assertThat(backend.profile()).isEqualTo(Kernels.CPU_STRICT);
        }
    }

    @Test
    void autoShouldNeverTakeTheStandin() {
        try (Backend backend = Backend.open("auto", 1, CudaConfig.STANDIN)) {
            assertThat(backend.name()).isNotEqualTo("cuda");
            assertThat(backend.reason()).endsWith("; not cuda: the stand-in is taken only when cuda is asked for");
        }
    }

    @Test
    void cudaAskedForShouldBeTheStandinIfThatWasSaid() {
        StandIn.assumePresent();
        try (Backend backend = Backend.open("cuda", 1, CudaConfig.STANDIN.withMemoryBytes(64 << 20))) {
            assertThat(backend.name()).isEqualTo("cuda");
            assertThat(backend.profile()).isEqualTo("cuda-mma/v1");
            assertThat(backend.reason())
                    .matches("asked for; Millrace CUDA stand-in \\(CPU\\), device 0, compute capability \\d\\.\\d, "
                            + "driver of CUDA \\d+\\.\\d, \\d+ MiB, kernels of millrace\\.(fatbin|ptx)");
            Device device = backend.kernels().device();
            assertThat(device.standIn()).isTrue();
            assertThat(device.imageSha256()).matches("[0-9a-f]{64}");
            assertThat(backend.kernels().memoryBytes()).isEqualTo(64 << 20);
            assertThat(backend.kernels().memoryLeft()).isBetween(1L, 64L << 20);
        }
    }

    @Test
    void cudaAskedForAndMissingShouldStopTheStart() {
        assumeTrue(CudaProbe.missing(CudaConfig.SYSTEM) != null, "a device is here");
        assertThatThrownBy(() -> Backend.open("cuda", 1, CudaConfig.SYSTEM))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).startsWith("CUDA_"))
                .hasMessageMatching("backend \"cuda\": .*expected .*, got .*; .*");
    }

    @Test
    void unknownNameShouldBeRefusedWithAllThatThereAre() {
        assertThatThrownBy(() -> Backend.open("gpu", 1, CudaConfig.SYSTEM))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("BACKEND_UNKNOWN"))
                .hasMessage("backend: expected auto, cuda, native, vector or scalar, got \"gpu\"");
    }
}

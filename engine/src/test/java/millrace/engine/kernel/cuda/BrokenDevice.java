package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import millrace.engine.CudaConfig;
import millrace.engine.DeviceException;

/// Breaks the stand-in's device for everybody in this process, as a kernel that runs astray breaks a real one: for tests of
/// what stands around it.
public final class BrokenDevice {
    private static final long NOWHERE = 1 << 12;

    private BrokenDevice() {}

    /// Whether there is a stand-in to break.
    public static boolean isPresent() {
        return CudaLibraries.resource("libcuda-standin.so") != null;
    }

    /// A context belongs to all of the process that use the device: a fault in one place is everybody's.
    public static void strike() {
        Gpu gpu = Gpu.open(CudaConfig.STANDIN.withMemoryBytes(1 << 20));
        Kernel copy = gpu.kernel("copy_words16");
        assertThatThrownBy(() -> {
                    gpu.launch(copy).ptr(NOWHERE).ptr(NOWHERE).i64(64).run(1, 1, 1, 32, 0);
                    gpu.synchronize();
                })
                .isInstanceOf(DeviceException.class);
        assertThat(gpu.failure()).isNotNull();
        gpu.close();
    }

    /// What the next process would find. No device may be open.
    public static void replace() {
        StandIn.reset();
    }
}

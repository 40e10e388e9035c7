package millrace.engine.kernel.cuda;

import java.util.Arrays;
import java.util.List;
import millrace.engine.CudaConfig;

/// How fast a device copies its own memory, beside which a kernel's figures stand.
///
/// What is copied is far more than the device's caches hold; the stand-in gets little.
public final class DeviceBandwidth implements AutoCloseable {
    private static final long BYTES = 1L << 30;
    private static final long STANDIN_BYTES = 16L << 20;
    private static final int COPIES = 20;
    private static final int ROUNDS = 9;

    private final CudaConfig config;
    private final Gpu gpu;
    private final long bytes;
    private final long from;
    private final long to;

    /// @throws millrace.engine.BackendException for a device that cannot be had
    public DeviceBandwidth(CudaConfig config) {
        this.config = config;
        bytes = config.driver() == CudaConfig.Driver.STANDIN ? STANDIN_BYTES : BYTES;
        gpu = Gpu.open(config.withMemoryBytes(2 * bytes + (4L << 20)));
        gpu.own();
        from = gpu.allocate(bytes, "a copy's source");
        to = gpu.allocate(bytes, "a copy's target");
    }

    /// Bytes read and written in a second, by some copies in a row.
    public double bytesPerSecond() {
        gpu.synchronize();
        long start = System.nanoTime();
        for (int i = 0; i < COPIES; i++) {
            gpu.copy(to, from, bytes);
        }
        gpu.synchronize();
        return 2.0 * COPIES * bytes / ((System.nanoTime() - start) / 1e9);
    }

    /// The median of a few measurements.
    public double medianBytesPerSecond() {
        double[] measured = new double[ROUNDS];
        bytesPerSecond();
        Arrays.setAll(measured, i -> bytesPerSecond());
        Arrays.sort(measured);
        return measured[ROUNDS / 2];
    }

    public CudaDevice device() {
        return gpu.device();
    }

    /// Which image of the kernels was loaded, and its digest.
    public String kernels() {
        return gpu.imageName() + ", sha256:" + gpu.imageDigest();
    }

    /// Functions that JCuda's library asks the driver for and that it has not.
    public List<String> missing() {
        return CudaLibraries.missing(config.driver());
    }

    @Override
    public void close() {
        gpu.close();
    }
}

package millrace.engine.kernel.cuda;

import java.util.Arrays;
import millrace.engine.Bandwidth;
import millrace.engine.CudaConfig;
import millrace.engine.DeviceFacts;

/// How fast a device copies its own memory, beside which a kernel's figures stand.
///
/// What is copied is far more than the device's caches hold; the stand-in gets little.
public final class DeviceBandwidth implements Bandwidth {
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
    @Override
    public double bytesPerSecond() {
        gpu.synchronize();
        long start = System.nanoTime();
        for (int i = 0; i < COPIES; i++) {
            gpu.copy(to, from, bytes);
        }
        gpu.synchronize();
        return 2.0 * COPIES * bytes / ((System.nanoTime() - start) / 1e9);
    }

    /// Facts, with the median of a few measurements.
    public DeviceFacts facts() {
        double[] measured = new double[ROUNDS];
        bytesPerSecond();
        Arrays.setAll(measured, i -> bytesPerSecond());
        Arrays.sort(measured);
        return new DeviceFacts(
                gpu.name(), gpu.device().describe(), gpu.imageName() + ", sha256:" + gpu.imageDigest(),
                CudaLibraries.missing(config.driver()), measured[ROUNDS / 2], gpu.device().standin());
    }

    @Override
    public void close() {
        gpu.close();
    }
}

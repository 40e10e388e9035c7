package millrace.engine.kernel.cuda;

import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;

/// A prepared copy between pinned memory of the host and the device.
public final class Copy {
    private final Gpu gpu;
    private final Pointer host;
    private final CUdeviceptr device;
    private final long bytes;

    Copy(Gpu gpu, Pointer host, CUdeviceptr device, long bytes) {
        this.gpu = gpu;
        this.host = host;
        this.device = device;
        this.bytes = bytes;
    }

    /// Queues the copy of the first bytes to the device. The host's must not change before the stream has passed it.
    public void send(long count) {
        gpu.send(this, check(count));
    }

    /// Queues the copy of the first bytes to the host, which has them after [Gpu#synchronize].
    public void fetch(long count) {
        gpu.fetch(this, check(count));
    }

    /// Queues the setting of the first bytes on the device.
    public void fill(byte value, long count) {
        gpu.fill(this, value, check(count));
    }

    private long check(long count) {
        if (count < 0 || count > bytes) {
            throw new IllegalArgumentException("copy: expected at most " + bytes + " bytes, got " + count);
        }
        return count;
    }

    Pointer host() {
        return host;
    }

    CUdeviceptr device() {
        return device;
    }
}

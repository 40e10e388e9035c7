package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;

/// Copies between the device and memory of the host that is not pinned, through two pinned buffers: while the device
/// copies from one the host fills the other.
final class Staging implements AutoCloseable {
    private static final long BYTES = 4 << 20;

    private final Faults faults;
    private final CUstream stream;
    private final MemorySegment[] buffers;
    private final CUevent[] copied = {new CUevent(), new CUevent()};
    private int next;

    /// @param first pinned memory
    /// @param second pinned memory of the same size
    Staging(Faults faults, CUstream stream, MemorySegment first, MemorySegment second) {
        this.faults = faults;
        this.stream = stream;
        buffers = new MemorySegment[] {first, second};
        for (CUevent event : copied) {
            faults.check(JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        }
    }

    /// Size of each buffer.
    static long bytes() {
        return BYTES;
    }

    /// Queues the copy; the host's memory may change as soon as this returns.
    void upload(long device, MemorySegment host) {
        for (long at = 0; at < host.byteSize(); at += BYTES) {
            long n = Math.min(BYTES, host.byteSize() - at);
            int i = next;
            next = 1 - next;
            faults.check(JCudaDriver.cuEventSynchronize(copied[i]), "cuEventSynchronize");
            MemorySegment.copy(host, at, buffers[i], 0, n);
            faults.check(
                    JCudaDriver.cuMemcpyHtoDAsync(
                            Addresses.device(device + at), Addresses.host(buffers[i]), n, stream),
                    "cuMemcpyHtoDAsync");
            faults.check(JCudaDriver.cuEventRecord(copied[i], stream), "cuEventRecord");
        }
    }

    /// Waits for everything queued before, and has the bytes when it returns.
    void download(MemorySegment host, long device) {
        for (long at = 0; at < host.byteSize(); at += BYTES) {
            long n = Math.min(BYTES, host.byteSize() - at);
            faults.check(JCudaDriver.cuEventSynchronize(copied[0]), "cuEventSynchronize");
            faults.check(
                    JCudaDriver.cuMemcpyDtoHAsync(
                            Addresses.host(buffers[0]), Addresses.device(device + at), n, stream),
                    "cuMemcpyDtoHAsync");
            faults.check(JCudaDriver.cuStreamSynchronize(stream), "cuStreamSynchronize");
            MemorySegment.copy(buffers[0], 0, host, at, n);
        }
    }

    @Override
    public void close() {
        for (CUevent event : copied) {
            int ignored = JCudaDriver.cuEventDestroy(event);
        }
    }
}

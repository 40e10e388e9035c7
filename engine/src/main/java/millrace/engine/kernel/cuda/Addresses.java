package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import jcuda.Pointer;
import jcuda.driver.CUdeviceptr;

/// Addresses as JCuda takes them, and back. JCuda's own ways to make a pointer copy, or pin what is on the heap.
final class Addresses {
    private Addresses() {}

    /// Memory of the host outside the heap.
    static Pointer host(MemorySegment segment) {
        return new Host(segment.address());
    }

    /// Memory of the device.
    static CUdeviceptr device(long address) {
        return new CUdeviceptr().withByteOffset(address);
    }

    /// A pointer of the host, given or to be filled in by a call.
    static final class Host extends Pointer {
        Host(long address) {
            super(address);
        }

        Host() {}

        long address() {
            return getNativePointer() + getByteOffset();
        }
    }

    /// A pointer of the device that a call fills in.
    static final class Device extends CUdeviceptr {
        long address() {
            return getNativePointer() + getByteOffset();
        }
    }
}

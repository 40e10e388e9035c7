package millrace.engine.kernel.cuda;

import java.util.ArrayList;
import java.util.List;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import millrace.engine.DeviceException;

/// The device memory of an engine: a budget that is fixed when it starts, handed out in pieces that stay until the end.
///
/// One allocation holds everything, so that what the plan promised is there from the first second to the last, whoever
/// else uses the device. Where a driver checks the bounds of each allocation, every piece is one of its own.
final class DeviceMemory implements AutoCloseable {
    /// As the driver aligns its own; wide loads and tensor cores need less.
    static final long ALIGNMENT = 256;

    private final Faults faults;
    private final String device;
    private final long budget;
    private final boolean separate;
    private final List<Addresses.Device> allocations = new ArrayList<>();
    private long base;
    private long used;

    DeviceMemory(Faults faults, String device, long budget, boolean separate) {
        this.faults = faults;
        this.device = device;
        this.budget = budget;
        this.separate = separate;
        if (!separate) {
            base = ofDriver(budget, "the memory of the engine");
        }
    }

    /// @throws DeviceException `CUDA_MEMORY` if the budget does not have so much left
    long allocate(long bytes, String what) {
        long rounded = Math.addExact(Math.max(bytes, 1), ALIGNMENT - 1) & -ALIGNMENT;
        if (rounded > budget - used) {
            throw exhausted(what, rounded, budget - used);
        }
        long address = separate ? ofDriver(rounded, what) : base + used;
        used += rounded;
        return address;
    }

    private long ofDriver(long bytes, String what) {
        var pointer = new Addresses.Device();
        int result = JCudaDriver.cuMemAlloc(pointer, bytes);
        if (result == CUresult.CUDA_ERROR_OUT_OF_MEMORY) {
            long[] free = new long[1];
            long[] total = new long[1];
            JCudaDriver.cuMemGetInfo(free, total);
            throw exhausted(what, bytes, free[0]);
        }
        faults.check(result, "cuMemAlloc");
        allocations.add(pointer);
        return pointer.address();
    }

    private DeviceException exhausted(String what, long bytes, long left) {
        return new DeviceException(
                "CUDA_MEMORY",
                "%s: memory for %s: expected %d bytes, got %d that are left; ".formatted(device, what, bytes, left)
                        + "take a smaller engine.weights or engine.kv.format, end what else uses the device, or set "
                        + "engine.memory.bytes",
                CUresult.CUDA_ERROR_OUT_OF_MEMORY,
                Faults.name(CUresult.CUDA_ERROR_OUT_OF_MEMORY),
                "",
                false);
    }

    long budget() {
        return budget;
    }

    long left() {
        return budget - used;
    }

    /// Gives everything back. What cannot be given back is lost with the context.
    @Override
    public void close() {
        for (Addresses.Device allocation : allocations) {
            int ignored = JCudaDriver.cuMemFree(allocation);
        }
        allocations.clear();
    }
}

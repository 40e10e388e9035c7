package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import jcuda.Pointer;

/// The arguments of one launch, packed outside the heap: given in the kernel's order, used again for the next launch.
///
/// The driver reads an argument's bytes through a pointer to each, and knows their sizes from the kernel. Each argument
/// has eight bytes here, and the pointers to them never change: to pack an argument is to write it. Behind the last
/// argument of a launch the pointers are null, so that a kernel that wants more than it was given is found out and does
/// not compute with what a former launch has left.
public final class Launch {
    /// The most arguments of a kernel.
    public static final int MOST = 40;

    private static final ValueLayout.OfLong SLOT = ValueLayout.JAVA_LONG;

    private final Gpu gpu;
    private final Kernel kernel;
    private final MemorySegment values;
    private final MemorySegment pointers;
    private final Pointer packed;
    private int count;
    private int given;

    Launch(Gpu gpu, Kernel kernel) {
        this.gpu = gpu;
        this.kernel = kernel;
        values = Arena.ofAuto().allocate(SLOT, MOST);
        pointers = Arena.ofAuto().allocate(SLOT, MOST + 1);
        packed = Addresses.host(pointers);
    }

    /// Begins again with the first argument.
    Launch restart() {
        count = 0;
        return this;
    }

    /// An address of the device; 0 is null.
    public Launch ptr(long address) {
        return i64(address);
    }

    public Launch i64(long value) {
        if (count == MOST) {
            throw new IllegalStateException(kernel + ": expected at most " + MOST + " arguments");
        }
        values.setAtIndex(SLOT, count++, value);
        return this;
    }

    public Launch i32(int value) {
        return i64(value);
    }

    public Launch f32(float value) {
        return i64(Integer.toUnsignedLong(Float.floatToRawIntBits(value)));
    }

    /// Queues the kernel on the stream. Blocks have one dimension.
    ///
    /// @param sharedBytes of dynamic shared memory
    /// @throws millrace.engine.DeviceException if the driver refuses it, or reports the failure of earlier work
    public void run(int gridX, int gridY, int gridZ, int blockX, int sharedBytes) {
        while (given < count) {
            pointers.setAtIndex(SLOT, given, values.address() + SLOT.byteSize() * given);
            given++;
        }
        while (given > count) {
            pointers.setAtIndex(SLOT, --given, 0);
        }
        try {
            gpu.run(kernel, packed, gridX, gridY, gridZ, blockX, sharedBytes);
        } finally {
            // The driver reads the arguments by their address, which keeps nobody from freeing them.
            Reference.reachabilityFence(this);
        }
    }

    /// The argument in a place, as its eight bytes.
    long argument(int i) {
        return values.getAtIndex(SLOT, i);
    }

    /// Arguments that were given.
    int count() {
        return count;
    }
}

package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import millrace.engine.kernel.Rows;

/// Brings numbers to a device and back, for tests of kernels.
final class DeviceLab {
    /// What a matrix holds where nothing was written: a test sees what is left alone.
    static final float UNTOUCHED = -77.25f;

    private final Gpu gpu;
    private final Arena arena = Arena.ofAuto();

    DeviceLab(Gpu gpu) {
        this.gpu = gpu;
    }

    /// Address of an array on the device.
    long floats(float[] values) {
        return upload(arena.allocateFrom(ValueLayout.JAVA_FLOAT, values));
    }

    long ints(int... values) {
        return upload(arena.allocateFrom(ValueLayout.JAVA_INT, values));
    }

    private long upload(MemorySegment values) {
        long address = gpu.allocate(Math.max(1, values.byteSize()), "a test");
        gpu.upload(address, values);
        return address;
    }

    float[] floats(long address, int count) {
        return download(address, (long) Float.BYTES * count).toArray(ValueLayout.JAVA_FLOAT);
    }

    int[] ints(long address, int count) {
        return download(address, (long) Integer.BYTES * count).toArray(ValueLayout.JAVA_INT);
    }

    /// Turns one bit of the device's memory.
    void flip(long address, long bit) {
        MemorySegment octet = download(address + bit / 8, 1);
        octet.set(ValueLayout.JAVA_BYTE, 0, (byte) (octet.get(ValueLayout.JAVA_BYTE, 0) ^ 1 << bit % 8));
        gpu.upload(address + bit / 8, octet);
    }

    private MemorySegment download(long address, long bytes) {
        MemorySegment values = arena.allocate(Math.max(1, bytes), 8).asSlice(0, bytes);
        gpu.download(values, address);
        return values;
    }

    /// The same view of a copy of the matrix on the device.
    Rows rows(Rows host) {
        return new Rows(new float[0], floats(host.values()), host.length(), host.offset(), host.stride(), host.width());
    }

    /// All of the matrix that a view belongs to.
    float[] values(Rows device) {
        return floats(device.address(), device.length());
    }

    /// Bits, in which NaN are one another: their payload is not defined.
    static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        Arrays.setAll(bits, i -> Float.floatToIntBits(values[i]));
        return bits;
    }

    /// A view of `width` columns inside wider rows, of random numbers around it too.
    static Rows view(Random random, int rows, int width, int before, int after) {
        int stride = before + width + after;
        float[] values = new float[rows * stride];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) (3 * random.nextGaussian());
        }
        return new Rows(values, before, stride, width);
    }

    static Rows untouched(int rows, int width) {
        float[] values = new float[rows * width];
        Arrays.fill(values, UNTOUCHED);
        return new Rows(values, 0, width, width);
    }

    static Rows copy(Rows rows) {
        return new Rows(rows.values().clone(), rows.offset(), rows.stride(), rows.width());
    }
}

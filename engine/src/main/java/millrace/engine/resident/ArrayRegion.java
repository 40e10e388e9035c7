package millrace.engine.resident;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.zip.CRC32C;
import millrace.engine.kernel.Matrix;

/// Small arrays on the heap, one block: the weights of norms, biases, frequencies, and where packed panels begin. Their
/// bytes are those of their numbers, little-endian.
public final class ArrayRegion implements Region {
    private final String name;
    private final String format;
    private final Object memory;
    private final long bytes;
    private final Supplier<ByteBuffer> read;
    private final Consumer<ByteBuffer> write;

    private ArrayRegion(
            String name,
            String format,
            Object memory,
            long bytes,
            Supplier<ByteBuffer> read,
            Consumer<ByteBuffer> write) {
        this.name = name;
        this.format = format;
        this.memory = memory;
        this.bytes = bytes;
        this.read = read;
        this.write = write;
    }

    /// An array of F32.
    public static ArrayRegion of(String name, float[] values) {
        return new ArrayRegion(
                name,
                "f32",
                values,
                (long) Float.BYTES * values.length,
                () -> {
                    ByteBuffer out = allocate((long) Float.BYTES * values.length);
                    // Bit by bit: a view of floats may quieten a NaN, and a flip may make one.
                    for (float value : values) {
                        out.putInt(Float.floatToRawIntBits(value));
                    }
                    return out.flip();
                },
                in -> {
                    for (int i = 0; i < values.length; i++) {
                        values[i] = Float.intBitsToFloat(in.getInt());
                    }
                });
    }

    /// An array of F64.
    public static ArrayRegion of(String name, double[] values) {
        return new ArrayRegion(
                name,
                "f64",
                values,
                (long) Double.BYTES * values.length,
                () -> {
                    ByteBuffer out = allocate((long) Double.BYTES * values.length);
                    for (double value : values) {
                        out.putLong(Double.doubleToRawLongBits(value));
                    }
                    return out.flip();
                },
                in -> {
                    for (int i = 0; i < values.length; i++) {
                        values[i] = Double.longBitsToDouble(in.getLong());
                    }
                });
    }

    /// Where the panels of a packed matrix begin, and which are raw. A kernel that is led astray by it reads anything.
    public static ArrayRegion ofPanels(String name, Matrix matrix) {
        int panels = matrix.panels();
        long bytes = (Long.BYTES + 1L) * panels + Long.BYTES;
        return new ArrayRegion(
                name,
                "panels",
                matrix,
                bytes,
                () -> {
                    ByteBuffer out = allocate(bytes);
                    long[] offsets = matrix.panelOffsets();
                    boolean[] raw = matrix.rawPanels();
                    for (int p = 0; p < panels; p++) {
                        out.putLong(offsets[p]).put((byte) (raw[p] ? 1 : 0));
                    }
                    return out.putLong(offsets[panels]).flip();
                },
                in -> {
                    long[] offsets = new long[panels + 1];
                    boolean[] raw = new boolean[panels];
                    for (int p = 0; p < panels; p++) {
                        offsets[p] = in.getLong();
                        raw[p] = in.get() != 0;
                    }
                    offsets[panels] = in.getLong();
                    matrix.restorePanels(offsets, raw);
                });
    }

    private static ByteBuffer allocate(long bytes) {
        return ByteBuffer.allocate(Math.toIntExact(bytes)).order(ByteOrder.LITTLE_ENDIAN);
    }

    /// The bytes as they are now.
    public ByteBuffer read() {
        return read.get();
    }

    /// Puts in other bytes, as many.
    public void write(ByteBuffer in) {
        write.accept(in.order(ByteOrder.LITTLE_ENDIAN));
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String format() {
        return format;
    }

    @Override
    public Object memory() {
        return memory;
    }

    @Override
    public int blocks() {
        return 1;
    }

    @Override
    public long start(int block) {
        return 0;
    }

    @Override
    public long bytes(int block) {
        return bytes;
    }

    @Override
    public int checksum(int block) {
        CRC32C crc = new CRC32C();
        crc.update(read());
        return (int) crc.getValue();
    }

    @Override
    public void restore(int block, Region from) {
        write(((ArrayRegion) from).read());
    }
}

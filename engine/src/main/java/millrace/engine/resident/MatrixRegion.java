package millrace.engine.resident;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.function.IntUnaryOperator;
import java.util.zip.CRC32C;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Matrix;

/// The panels of a matrix, as they lie in memory. A block is as many whole panels as a MiB holds, and at least one.
public final class MatrixRegion implements Region {
    private final String name;
    private final Matrix matrix;

    /// First panel of each block, and one more: the number of panels.
    private final int[] panels;

    /// Bytes before each block, and all bytes: kept here, since a damaged matrix must not say where its blocks are.
    private final long[] starts;

    public MatrixRegion(String name, Matrix matrix) {
        this.name = name;
        this.matrix = matrix;
        int[] firsts = new int[matrix.panels() + 1];
        int count = 0;
        long filled = BLOCK_BYTES;
        for (int p = 0; p < matrix.panels(); p++) {
            if (filled + matrix.panelBytes(p) > BLOCK_BYTES) {
                firsts[count++] = p;
                filled = 0;
            }
            filled += matrix.panelBytes(p);
        }
        firsts[count] = matrix.panels();
        panels = Arrays.copyOf(firsts, count + 1);
        starts = new long[count + 1];
        for (int b = 0; b < count; b++) {
            starts[b] = matrix.panelOffset(panels[b]);
        }
        starts[count] = matrix.data().byteSize();
    }

    public Matrix matrix() {
        return matrix;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String format() {
        return matrix.format().id();
    }

    @Override
    public Object memory() {
        return matrix;
    }

    @Override
    public int blocks() {
        return panels.length - 1;
    }

    @Override
    public long start(int block) {
        return starts[block];
    }

    @Override
    public long bytes(int block) {
        return starts[block + 1] - starts[block];
    }

    @Override
    public int checksum(int block) {
        CRC32C crc = new CRC32C();
        crc.update(slice(block).asByteBuffer());
        return (int) crc.getValue();
    }

    @Override
    public boolean compressed() {
        return matrix.format() == WeightFormat.PACKED && matrix.hasNumbersChecksums();
    }

    @Override
    public int numbersChecksum(int block) {
        return compressed() ? checksum(block, matrix::numbersChecksum) : 0;
    }

    @Override
    public int decodedChecksum(int block) {
        return compressed() ? checksum(block, matrix::decodedChecksum) : 0;
    }

    private int checksum(int block, IntUnaryOperator ofPanel) {
        CRC32C crc = new CRC32C();
        for (int p = panels[block]; p < panels[block + 1]; p++) {
            int sum = ofPanel.applyAsInt(p);
            for (int i = 0; i < Integer.BYTES; i++) {
                crc.update(sum >>> 8 * i & 0xFF);
            }
        }
        return (int) crc.getValue();
    }

    @Override
    public void restore(int block, Region from) {
        MatrixRegion other = (MatrixRegion) from;
        MemorySegment.copy(other.slice(block), 0, slice(block), 0, bytes(block));
    }

    private MemorySegment slice(int block) {
        return matrix.data().asSlice(starts[block], bytes(block));
    }
}

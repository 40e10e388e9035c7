package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import millrace.engine.format.Bf16Panel;
import millrace.engine.format.Exp3sPanel;
import millrace.engine.format.PackedPanel;
import millrace.engine.format.WeightFormat;
import millrace.engine.format.Words;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;

/// A matrix of weights in the device's memory.
///
/// Its bytes there are those of the host, but for PACKED: that has a form of its own on the device ([Exp3sPanel]), made
/// from the host's whenever it is copied. There the offset of each panel, 8 bytes, stands before the panels, from the
/// beginning of all; the lowest bit says that the panel is raw.
///
/// @param host the matrix on the host, which stays what the device's copy is made from
/// @param address of its bytes in the device's memory
record CudaMatrix(Matrix host, long address) {
    /// Bytes for a panel's offset.
    private static final int OFFSET_BYTES = 8;

    /// Up to so many panels have 8, 4 or 2 slices: enough blocks to have all of the device's memory at work, and no more,
    /// since every block splits the activations again.
    private static final int[] MOST_PANELS = {256, 512, 4096};

    /// In how many slices the columns are added up: a function of the shape alone, since the bits depend on it.
    static int slices(int rows, int cols) {
        int panels = WeightFormat.panels(rows);
        int slices = Exp3sPanel.MAX_SLICES;
        for (int most : MOST_PANELS) {
            slices = panels > most ? slices / 2 : slices;
        }
        while (slices > Exp3sPanel.units(cols)) {
            slices /= 2;
        }
        return slices;
    }

    int slices() {
        return slices(host.rows(), host.cols());
    }

    /// Bytes of a panel on the device; 0 where panels differ.
    long panelBytes() {
        return host.format() == WeightFormat.PACKED ? 0 : host.panelBytes(0);
    }

    /// The bytes that a matrix has on the device.
    ///
    /// @param arena for them, where they are not those of the host
    static MemorySegment bytes(Arena arena, Matrix host, Matrix.Each each) {
        if (host.format() != WeightFormat.PACKED) {
            return host.data();
        }
        int slices = slices(host.rows(), host.cols());
        long[] offsets = new long[host.panels() + 1];
        each.run(host.panels(), p -> offsets[p + 1] =
                Exp3sPanel.bytes(numbers(host, p), panelRows(host, p), host.cols(), slices));
        offsets[0] = ((long) OFFSET_BYTES * host.panels() + Memory.ALIGNMENT - 1) / Memory.ALIGNMENT * Memory.ALIGNMENT;
        for (int p = 0; p < host.panels(); p++) {
            offsets[p + 1] += offsets[p];
        }
        MemorySegment bytes = Memory.allocateDense(arena, offsets[host.panels()], "the packed weights of the device");
        each.run(host.panels(), p -> {
            Exp3sPanel.encode(numbers(host, p), panelRows(host, p), host.cols(), slices, bytes, offsets[p]);
            int raw = Exp3sPanel.isRaw(bytes, offsets[p]) ? 1 : 0;
            Words.twice(bytes, (long) OFFSET_BYTES * p, offsets[p] | raw);
        });
        return bytes;
    }

    private static int panelRows(Matrix host, int panel) {
        return Math.min(Matrix.PANEL_ROWS, host.rows() - panel * Matrix.PANEL_ROWS);
    }

    private static short[] numbers(Matrix host, int panel) {
        int rows = panelRows(host, panel);
        short[] numbers = new short[rows * host.cols()];
        if (host.rawPanel(panel)) {
            Bf16Panel.decode(host.data(), host.panelOffset(panel), rows, host.cols(), numbers);
        } else {
            PackedPanel.decode(
                    host.data(), host.panelOffset(panel), host.panelBytes(panel), rows, host.cols(), numbers);
        }
        return numbers;
    }
}

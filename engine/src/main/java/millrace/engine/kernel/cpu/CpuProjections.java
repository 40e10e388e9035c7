package millrace.engine.kernel.cpu;

import java.util.Objects;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// Matrix products as a task: a unit is four panels of weights by up to 128 rows of one product.
///
/// Within a unit the panels stay in the second-level cache while blocks of rows pass by, so weights come from memory
/// once for all rows of a decode step. Blocks are as large as a call may be long: what decodes weights does so once for
/// a block.
final class CpuProjections implements ThreadTeam.Task {
    private static final int UNIT_ROWS = 128;
    /// Multiply-adds of a panel row in one call of the loops: some hundred microseconds for four panels, since a native
    /// call holds up the garbage collector.
    private static final int BLOCK_WORK = 1 << 18;
    private static final int FEWEST_BLOCK_ROWS = 16;

    private final Loops loops;
    private final float[][] tiles;
    private @Nullable Projections projections;
    private int[] firstUnit = new int[16];

    CpuProjections(Loops loops, int threads) {
        this.loops = loops;
        tiles = new float[threads][UNIT_ROWS * Loops.TILE];
    }

    /// Sets the next operation; returns the number of its units.
    int prepare(Projections next) {
        projections = next;
        if (firstUnit.length < next.count()) {
            firstUnit = new int[2 * next.count()];
        }
        int units = 0;
        for (int i = 0; i < next.count(); i++) {
            firstUnit[i] = units;
            units += panelGroups(next.matrix(i)) * rowChunks(next.rows(i));
        }
        return units;
    }

    /// Multiply-adds of the operation.
    static long work(Projections projections) {
        long work = 0;
        for (int i = 0; i < projections.count(); i++) {
            Matrix w = projections.matrix(i);
            work += (long) w.rows() * w.cols() * projections.rows(i);
        }
        return work;
    }

    private static int panelGroups(Matrix w) {
        return (w.panels() + Loops.PANELS - 1) / Loops.PANELS;
    }

    private static int rowChunks(int rows) {
        return (rows + UNIT_ROWS - 1) / UNIT_ROWS;
    }

    @Override
    public void run(int unit, int thread) {
        Projections p = Objects.requireNonNull(projections);
        int i = entry(unit, p.count());
        Matrix w = p.matrix(i);
        int chunks = rowChunks(p.rows(i));
        int inEntry = unit - firstUnit[i];
        int firstPanel = inEntry / chunks * Loops.PANELS;
        int panels = Math.min(Loops.PANELS, w.panels() - firstPanel);
        int from = inEntry % chunks * UNIT_ROWS;
        int to = Math.min(p.rows(i), from + UNIT_ROWS);
        Rows x = p.input(i);
        float[] tile = tiles[thread];
        int block = Math.clamp(BLOCK_WORK / w.cols() / 8 * 8, FEWEST_BLOCK_ROWS, UNIT_ROWS);
        for (int row = from; row < to; row += block) {
            int rows = Math.min(block, to - row);
            loops.project(w, firstPanel, panels, x.values(), x.at(p.inputRow(i) + row), x.stride(), rows, tile);
            int outputs = Math.min(panels * Matrix.PANEL_ROWS, w.rows() - firstPanel * Matrix.PANEL_ROWS);
            copy(tile, p.output(i), p.outputRow(i) + row, rows, firstPanel * Matrix.PANEL_ROWS, outputs, p.bias(i));
        }
    }

    private int entry(int unit, int count) {
        int low = 0;
        int high = count - 1;
        while (low < high) {
            int middle = (low + high + 1) >>> 1;
            if (firstUnit[middle] <= unit) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        return low;
    }

    private static void copy(
            float[] tile, Rows y, int row, int rows, int column, int outputs, float @Nullable [] bias) {
        for (int r = 0; r < rows; r++) {
            int o = y.at(row + r) + column;
            System.arraycopy(tile, r * Loops.TILE, y.values(), o, outputs);
            if (bias != null) {
                for (int i = 0; i < outputs; i++) {
                    y.values()[o + i] += bias[column + i];
                }
            }
        }
    }
}

package millrace.engine.kernel.cpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.IntConsumer;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.TileFormat;

/// The scalar loops until the vector loops have been compiled, then the vector loops.
///
/// Before the JVM's optimizing compiler has seen them, vector loops are hundreds of times slower than plain ones: each
/// vector is an object. So a thread exercises them on numbers of its own, and the change is made once they are faster
/// than the scalar ones. Both give the same bits, so that a generation may begin with one and end with the other.
public final class WarmingLoops implements Loops, AutoCloseable {
    /// After this long the change is made in any case: a machine too busy to compile is too busy to measure.
    private static final long PATIENCE_NANOS = 20_000_000_000L;
    private static final int WINS = 3;
    private static final int REPEAT = 20;

    private final Loops scalar;
    private final Loops vector;
    private volatile boolean warm;
    private volatile boolean closed;

    public WarmingLoops(Loops scalar, Loops vector) {
        this.scalar = scalar;
        this.vector = vector;
        Thread thread = new Thread(this::exercise, "millrace-kernel-warm-up");
        thread.setDaemon(true);
        thread.setPriority(Thread.MIN_PRIORITY);
        thread.start();
    }

    /// Whether the vector loops are in use.
    boolean isWarm() {
        return warm;
    }

    private void exercise() {
        try (Arena arena = Arena.ofConfined()) {
            Exercise work = new Exercise(arena);
            long start = System.nanoTime();
            int wins = 0;
            while (wins < WINS && !closed && System.nanoTime() - start < PATIENCE_NANOS) {
                wins = work.nanos(vector) < work.nanos(scalar) ? wins + 1 : 0;
            }
            warm = true;
        }
    }

    /// Every loop in the shapes that a step uses, on zeros: the time of none depends on its numbers.
    private static final class Exercise {
        private static final int COLS = 192;
        private static final int ROWS = 4;
        private static final int LANES = 64;

        private final Matrix[] matrices;
        private final float[] x = new float[ROWS * COLS];
        private final float[] tile = new float[Loops.tileRows(ROWS) * Loops.TILE];
        private final float[] decoded = new float[COLS * LANES];
        private final float[] scores = new float[COLS];
        private final float[] partials = new float[Matrix.PANEL_ROWS];

        Exercise(Arena arena) {
            WeightFormat[] formats = WeightFormat.values();
            matrices = new Matrix[formats.length];
            for (int i = 0; i < formats.length; i++) {
                DType dtype = formats[i] == WeightFormat.F32 ? DType.F32 : DType.BF16;
                MemorySegment zeros = arena.allocate((long) Loops.TILE * COLS * dtype.bytes());
                Matrix.Source source = Matrix.Source.rowMajor(dtype, zeros, Loops.TILE, COLS);
                matrices[i] = Matrix.pack(arena, source, formats[i], Exercise::inOrder);
            }
        }

        private static void inOrder(int count, IntConsumer task) {
            for (int i = 0; i < count; i++) {
                task.accept(i);
            }
        }

        long nanos(Loops loops) {
            long start = System.nanoTime();
            for (int i = 0; i < REPEAT; i++) {
                for (int rows = 1; rows <= ROWS; rows *= 2) {
                    for (Matrix matrix : matrices) {
                        loops.project(matrix, 0, Loops.PANELS, x, 0, COLS, rows, tile);
                    }
                }
                loops.sumOfSquares(x, 0, COLS, partials);
                loops.swiglu(x, 0, x, COLS, COLS);
                loops.softmax(scores, 0, COLS, 1f, partials);
                loops.score(x, 0, COLS, 2, decoded, LANES, scores, 0, Matrix.PANEL_ROWS);
                loops.accumulate(scores, 0, Matrix.PANEL_ROWS, decoded, 0, LANES, x, 0);
                decode(loops, TileFormat.BF16, matrices[WeightFormat.BF16.ordinal()]);
                decode(loops, TileFormat.F32, matrices[WeightFormat.F32.ordinal()]);
            }
            return System.nanoTime() - start;
        }

        /// A plain panel is a tile.
        private void decode(Loops loops, TileFormat format, Matrix from) {
            loops.decode(format, from.panelAddress(0), COLS, Matrix.PANEL_ROWS, 0, Matrix.PANEL_ROWS, decoded, 0);
        }
    }

    @Override
    public void project(
            Matrix w, int firstPanel, int panels, float[] x, int xOffset, int xStride, int rows, float[] out) {
        if (warm) {
            vector.project(w, firstPanel, panels, x, xOffset, xStride, rows, out);
        } else {
            scalar.project(w, firstPanel, panels, x, xOffset, xStride, rows, out);
        }
    }

    @Override
    public float sumOfSquares(float[] x, int offset, int n, float[] partials) {
        return warm ? vector.sumOfSquares(x, offset, n, partials) : scalar.sumOfSquares(x, offset, n, partials);
    }

    @Override
    public void swiglu(float[] gate, int gateOffset, float[] up, int upOffset, int n) {
        if (warm) {
            vector.swiglu(gate, gateOffset, up, upOffset, n);
        } else {
            scalar.swiglu(gate, gateOffset, up, upOffset, n);
        }
    }

    @Override
    public float softmax(float[] scores, int offset, int n, float scale, float[] partials) {
        return warm
                ? vector.softmax(scores, offset, n, scale, partials)
                : scalar.softmax(scores, offset, n, scale, partials);
    }

    @Override
    public void decode(
            TileFormat format, long tile, int depth, int lanes, int laneFrom, int laneTo, float[] out, int offset) {
        if (warm) {
            vector.decode(format, tile, depth, lanes, laneFrom, laneTo, out, offset);
        } else {
            scalar.decode(format, tile, depth, lanes, laneFrom, laneTo, out, offset);
        }
    }

    @Override
    public void scaleLanes(float[] x, int offset, int depth, long scales) {
        if (warm) {
            vector.scaleLanes(x, offset, depth, scales);
        } else {
            scalar.scaleLanes(x, offset, depth, scales);
        }
    }

    @Override
    public void scaleDepths(float[] x, int offset, int lanes, int laneFrom, int laneTo, long scales) {
        if (warm) {
            vector.scaleDepths(x, offset, lanes, laneFrom, laneTo, scales);
        } else {
            scalar.scaleDepths(x, offset, lanes, laneFrom, laneTo, scales);
        }
    }

    @Override
    public void score(
            float[] q,
            int qOffset,
            int qStride,
            int queries,
            float[] keys,
            int depth,
            float[] scores,
            int sOffset,
            int sStride) {
        if (warm) {
            vector.score(q, qOffset, qStride, queries, keys, depth, scores, sOffset, sStride);
        } else {
            scalar.score(q, qOffset, qStride, queries, keys, depth, scores, sOffset, sStride);
        }
    }

    @Override
    public void accumulate(
            float[] p, int pOffset, int tokens, float[] values, int vOffset, int lanes, float[] acc, int aOffset) {
        if (warm) {
            vector.accumulate(p, pOffset, tokens, values, vOffset, lanes, acc, aOffset);
        } else {
            scalar.accumulate(p, pOffset, tokens, values, vOffset, lanes, acc, aOffset);
        }
    }

    /// Ends the exercise early; the loops stay usable.
    @Override
    public void close() {
        closed = true;
    }
}

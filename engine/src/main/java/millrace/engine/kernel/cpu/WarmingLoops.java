package millrace.engine.kernel.cpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.function.IntConsumer;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
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

    private final TileLoops scalar;
    private final TileLoops vector;
    private volatile boolean warm;
    private volatile boolean closed;

    public WarmingLoops(TileLoops scalar, TileLoops vector) {
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
        private static final CacheShape.Latent[] LATENTS = {
            new CacheShape.Latent(TileFormat.F32, TileFormat.F32, LANES, LANES),
            new CacheShape.Latent(TileFormat.BF16, TileFormat.BF16, LANES, LANES),
            new CacheShape.Latent(TileFormat.FP8, TileFormat.FP8, LANES, LANES)
        };
        private static final int[] POSITIONS = {1, 3, 4, 5, 6, 9, 11, 14};

        private final Matrix[] matrices;
        private final float[] x = new float[ROWS * COLS];
        private final float[] tile = new float[Loops.tileRows(ROWS) * Loops.TILE];
        private final float[] decoded = new float[COLS * LANES];
        private final float[] scores = new float[COLS];
        private final float[] partials = new float[Matrix.PANEL_ROWS];
        private final long[] page = new long[1];
        private final long gathered;

        Exercise(Arena arena) {
            WeightFormat[] formats = WeightFormat.values();
            matrices = new Matrix[formats.length];
            for (int i = 0; i < formats.length; i++) {
                DType dtype = formats[i] == WeightFormat.F32 ? DType.F32 : DType.BF16;
                MemorySegment zeros = arena.allocate((long) Loops.TILE * COLS * dtype.bytes());
                Matrix.Source source = Matrix.Source.rowMajor(dtype, zeros, Loops.TILE, COLS);
                matrices[i] = Matrix.pack(arena, source, formats[i], Exercise::inOrder);
            }
            page[0] = arena.allocate(LATENTS[0].blockBytes(), Memory.ALIGNMENT).address();
            gathered = arena.allocate(LATENTS[0].blockBytes(), Memory.ALIGNMENT).address();
        }

        private static void inOrder(int count, IntConsumer task) {
            for (int i = 0; i < count; i++) {
                task.accept(i);
            }
        }

        long nanos(TileLoops loops) {
            // Four panels are long enough for every format.
            long zeros = matrices[WeightFormat.F32.ordinal()].panelAddress(0);
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
                loops.score(x, 0, LANES, 5, decoded, 0, LANES, scores, 0, Matrix.PANEL_ROWS, true);
                loops.fold(partials, 0, decoded, 0, 5, scores, 0, Matrix.PANEL_ROWS, false);
                loops.fixedScores(decoded, 0, Matrix.PANEL_ROWS, 2 * Matrix.PANEL_ROWS, 1, scores, 0);
                loops.fixedSums(decoded, 0, LANES, LANES, 1, scores, 0);
                loops.accumulate(scores, 0, Matrix.PANEL_ROWS, decoded, 0, LANES, LANES, x, 0);
                loops.weigh(decoded, 0, LANES, 5, LANES, partials, 0, scores, 0);
                for (CacheShape.Latent latent : LATENTS) {
                    loops.gather(latent, page, 0, POSITIONS, 0, POSITIONS.length, gathered);
                }
                for (TileFormat format : TileFormat.values()) {
                    loops.decode(format, zeros, COLS, 2 * Matrix.PANEL_ROWS, decoded, 0);
                }
            }
            return System.nanoTime() - start;
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
    public void scores(
            CacheShape shape,
            long[] pages,
            int first,
            int count,
            long blockOffset,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride,
            float[] scratch) {
        TileLoops loops = warm ? vector : scalar;
        loops.scores(shape, pages, first, count, blockOffset, q, qOffset, queries, scores, sOffset, sStride, scratch);
    }

    @Override
    public void scores(
            CacheShape.Keys shape,
            long[] pages,
            int first,
            int count,
            long blockOffset,
            float[] q,
            int qOffset,
            int queries,
            float[] scores,
            int sOffset,
            int sStride,
            float[] scratch) {
        TileLoops loops = warm ? vector : scalar;
        loops.scores(shape, pages, first, count, blockOffset, q, qOffset, queries, scores, sOffset, sStride, scratch);
    }

    @Override
    public void sums(
            CacheShape shape,
            long[] pages,
            int first,
            int count,
            int tokens,
            long blockOffset,
            float[] p,
            int pOffset,
            int pStride,
            int queries,
            float[] acc,
            int aOffset,
            float[] scratch) {
        TileLoops loops = warm ? vector : scalar;
        loops.sums(shape, pages, first, count, tokens, blockOffset, p, pOffset, pStride, queries, acc, aOffset, scratch);
    }

    @Override
    public void weigh(
            float[] dots,
            int dOffset,
            int dStride,
            int heads,
            int n,
            float[] weights,
            int wOffset,
            float[] out,
            int oOffset) {
        TileLoops loops = warm ? vector : scalar;
        loops.weigh(dots, dOffset, dStride, heads, n, weights, wOffset, out, oOffset);
    }

    @Override
    public void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        TileLoops loops = warm ? vector : scalar;
        loops.gather(shape, pages, blockOffset, positions, first, count, to);
    }

    /// Ends the exercise early; the loops stay usable.
    @Override
    public void close() {
        closed = true;
    }
}

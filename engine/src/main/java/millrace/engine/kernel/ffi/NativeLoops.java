package millrace.engine.kernel.ffi;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.cpu.Loops;

/// The inner loops in C.
///
/// C checks nothing: every range is checked here, once per call.
final class NativeLoops implements Loops {
    private final Segments segments = new Segments();
    private final NativeAttention attention = new NativeAttention(segments);

    @Override
    public void project(
            Matrix w, int firstPanel, int panels, float[] x, int xOffset, int xStride, int rows, float[] out) {
        Objects.checkFromIndexSize(firstPanel, panels, w.panels());
        Objects.checkIndex(panels - 1, PANELS);
        Objects.checkIndex(rows - 1, out.length / TILE);
        Objects.checkFromIndexSize(xOffset, Math.addExact(Math.multiplyExact(rows - 1, xStride), w.cols()), x.length);
        MemorySegment in = segments.of(x);
        MemorySegment tile = segments.of(out);
        int end = firstPanel + panels;
        int to;
        for (int from = firstPanel; from < end; from = to) {
            to = sameFormat(w, from, end);
            int o = (from - firstPanel) * Matrix.PANEL_ROWS;
            switch (w.panelFormat(from)) {
                case F32 -> NativeProjections.f32(w, from, to - from, in, xOffset, xStride, rows, tile, o);
                case BF16 -> NativeProjections.bf16(w, from, to - from, in, xOffset, xStride, rows, tile, o);
                case PACKED -> NativeProjections.packed(w, from, to - from, in, xOffset, xStride, rows, tile, o);
                case INT8 -> NativeProjections.int8(w, from, to - from, in, xOffset, xStride, rows, tile, o);
                case INT4 -> NativeProjections.int4(w, from, to - from, in, xOffset, xStride, rows, tile, o);
                case FP8 -> NativeProjections.fp8(w, from, to - from, in, xOffset, xStride, rows, tile, o);
            }
        }
    }

    /// The end of the panels from `from` on that have one format: in packed weights some may be raw.
    private static int sameFormat(Matrix w, int from, int end) {
        int to = from + 1;
        while (to < end && w.rawPanel(to) == w.rawPanel(from)) {
            to++;
        }
        return to;
    }

    @Override
    public float sumOfSquares(float[] x, int offset, int n, float[] partials) {
        Objects.checkFromIndexSize(offset, n, x.length);
        try {
            return (float) Symbols.SUM_OF_SQUARES.invokeExact(segments.of(x), (long) offset, (long) n);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    @Override
    public void swiglu(float[] gate, int gateOffset, float[] up, int upOffset, int n) {
        Objects.checkFromIndexSize(gateOffset, n, gate.length);
        Objects.checkFromIndexSize(upOffset, n, up.length);
        try {
            Symbols.SWIGLU.invokeExact(
                    segments.of(gate), (long) gateOffset, segments.of(up), (long) upOffset, (long) n);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    @Override
    public float softmax(float[] scores, int offset, int n, float scale, float[] partials) {
        Objects.checkFromIndexSize(offset, n, scores.length);
        try {
            return (float) Symbols.SOFTMAX.invokeExact(segments.of(scores), (long) offset, (long) n, scale);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
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
        attention.scores(
                shape, pages, first, count, blockOffset, q, qOffset, queries, scores, sOffset, sStride, scratch);
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
        attention.scores(
                shape, pages, first, count, blockOffset, q, qOffset, queries, scores, sOffset, sStride);
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
        attention.sums(
                shape, pages, first, count, tokens, blockOffset, p, pOffset, pStride, queries, acc, aOffset, scratch);
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
        Objects.checkIndex(heads - 1, Integer.MAX_VALUE);
        Objects.checkFromIndexSize(0, n, dStride);
        Objects.checkFromIndexSize(dOffset, Math.addExact(Math.multiplyExact(heads - 1, dStride), n), dots.length);
        Objects.checkFromIndexSize(wOffset, heads, weights.length);
        Objects.checkFromIndexSize(oOffset, n, out.length);
        try {
            Symbols.WEIGH.invokeExact(
                    segments.of(dots),
                    (long) dOffset,
                    (long) dStride,
                    (long) heads,
                    (long) n,
                    segments.of(weights),
                    (long) wOffset,
                    segments.of(out),
                    (long) oOffset);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    @Override
    public void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to) {
        attention.gather(shape, pages, blockOffset, positions, first, count, to);
    }
}

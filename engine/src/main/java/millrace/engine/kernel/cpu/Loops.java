package millrace.engine.kernel.cpu;

import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Matrix;

/// The inner loops of the kernels: pure functions of one thread, in the orders that
/// [millrace.engine.kernel.Kernels] fixes. A backend is an implementation of these.
public interface Loops {
    /// Panels that one call of [#project] takes.
    int PANELS = 4;

    /// Floats from one row of [#project]'s result to the next.
    int TILE = PANELS * Matrix.PANEL_ROWS;

    /// `out[r · TILE + 16 p + l] = Σₖ w[16 (firstPanel + p) + l][k] · x[xOffset + r · xStride + k]`.
    ///
    /// @param panels 1 to [#PANELS]
    /// @param out at least [#tileRows] rows; what stands beyond the rows and panels asked for is undefined
    void project(Matrix w, int firstPanel, int panels, float[] x, int xOffset, int xStride, int rows, float[] out);

    /// Rows that [#project] may write for so many rows of input: a multiple of 4.
    static int tileRows(int rows) {
        return (rows + 3) / 4 * 4;
    }

    /// `Σ x[i]²`: partial `l` of 16 takes `i ≡ l mod 16` in ascending order by fma; then the tree.
    ///
    /// @param partials room for 16 floats
    float sumOfSquares(float[] x, int offset, int n, float[] partials);

    /// `gate[i] = gate[i] / (1 + exp(−gate[i])) · up[i]`.
    void swiglu(float[] gate, int gateOffset, float[] up, int upOffset, int n);

    /// Replaces scores by `exp(scale · s − max(scale · s))` and returns their sum (partials and tree as above).
    float softmax(float[] scores, int offset, int n, float scale, float[] partials);

    /// Scores of queries and the tokens of whole pages, `scores[sOffset + i · sStride + 16 p + l]` for query i and token
    /// l of page p. From 0, by groups that share a scale: from 0, `part = fma(q[d], key[d], part)`, then
    /// `acc = fma(scale, part, acc)`; where numbers have no scale, `acc = fma(q[d], key[d], acc)`; d ascending. In grouped
    /// INT8, `float(Σ z[d] · key[d]) · unit · scale`, where `z` and `unit` are the query in [FixedPoint].
    ///
    /// @param pages absolute addresses of pages
    /// @param count pages from `first` on
    /// @param blockOffset bytes from the start of a page to the block
    /// @param q queries of `shape.keyDim()` floats, one after another
    /// @param queries 1 to [CacheShape#MOST_QUERIES]
    /// @param scratch room for `shape.scratchFloats()`
    void scores(
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
            float[] scratch);

    /// The same over index keys, which are those of [CacheShape.Grouped] in the same format.
    ///
    /// @param q queries of `shape.dim()` floats, one after another
    void scores(
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
            float[] scratch);

    /// Adds the weighted values of pages to sums: `acc = fma(w, value, acc)` for tokens ascending, where `w` is the
    /// token's weight, times the value's scale if it has one. In grouped INT8 page by page, `acc = fma(unit, float(Σ z · value),
    /// acc)` over its tokens that count, where `z` and `unit` are their weights in [FixedPoint].
    ///
    /// @param tokens those of the last page that count, 1 to 16; all of the other pages count
    /// @param p weights, laid out like the scores
    /// @param acc sums; those of query i begin at `aOffset + i · shape.valueLanes()`
    void sums(
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
            float[] scratch);

    /// What the heads of an index make of tokens: `out[oOffset + t]`, from 0, is `acc = fma(weights[wOffset + h], max(0, dot),
    /// acc)` with `dot = dots[dOffset + h · dStride + t]`, h ascending; a zero is +0.
    ///
    /// @param dots scores of the heads, see [#scores]
    /// @param n tokens
    void weigh(
            float[] dots,
            int dOffset,
            int dStride,
            int heads,
            int n,
            float[] weights,
            int wOffset,
            float[] out,
            int oOffset);

    /// Copies tokens out of their pages as they are, code by code, to blocks one behind another: the i-th into slot `i % 16` of
    /// the block at `to + i / 16 · shape.blockBytes()`. What the last block has beyond them is undefined.
    ///
    /// @param pages absolute addresses of the pages, in order
    /// @param positions of the tokens, from `first` on
    /// @param count how many of them
    /// @param to absolute address of the first block
    void gather(
            CacheShape.Latent shape, long[] pages, long blockOffset, int[] positions, int first, int count, long to);

    /// Ends what the loops do aside; they stay usable.
    default void close() {}

    /// Adds 16 partial sums in the fixed tree: `l + 8` to `l`, then 4, 2, 1. Overwrites them.
    static float tree(float[] partials) {
        for (int half = 8; half >= 1; half /= 2) {
            for (int l = 0; l < half; l++) {
                partials[l] += partials[l + half];
            }
        }
        return partials[0];
    }
}

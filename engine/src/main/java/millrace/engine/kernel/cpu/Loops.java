package millrace.engine.kernel.cpu;

import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.TileFormat;

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

    /// Decodes a tile into `out[(d · lanes) + lane]`, lanes `[laneFrom, laneTo)`, both multiples of 16; `depth` is
    /// rounded up to whole words.
    void decode(TileFormat format, long tile, int depth, int lanes, int laneFrom, int laneTo, float[] out, int offset);

    /// Multiplies 16 lanes of each depth: `x[16 d + l] *= scales[l]`.
    void scaleLanes(float[] x, int offset, int depth, long scales);

    /// Multiplies whole rows: `x[d · lanes + l] *= scales[d]` for 16 depths, lanes `[laneFrom, laneTo)`.
    void scaleDepths(float[] x, int offset, int lanes, int laneFrom, int laneTo, long scales);

    /// `scores[sOffset + i · sStride + l] = Σ_d q[qOffset + i · qStride + d] · keys[16 d + l]`, as one chain over d.
    void score(
            float[] q,
            int qOffset,
            int qStride,
            int queries,
            float[] keys,
            int depth,
            float[] scores,
            int sOffset,
            int sStride);

    /// `acc[aOffset + d] = fma(p[pOffset + t], values[vOffset + t · lanes + d], acc[aOffset + d])` for t ascending.
    void accumulate(
            float[] p, int pOffset, int tokens, float[] values, int vOffset, int lanes, float[] acc, int aOffset);

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

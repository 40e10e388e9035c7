package millrace.engine.kernel.cpu;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.util.concurrent.atomic.AtomicLong;
import millrace.engine.Products;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;

/// Computes some of the products of integers in attention over INT8 a second time, one number after another from the bytes of
/// the block: [FixedPoint] makes them exact, so whatever loops computed them, on whatever core, there is one right result.
///
/// Of a tile that is looked at, one score and one sum of values are: the sum of one dimension runs over all tokens that the query
/// sees. That finds an arithmetic unit that is wrong again and again, not one flip in passing.
///
/// Results may be given from several threads.
final class ProductCheck implements Products {
    private final AtomicLong checked = new AtomicLong();
    private final AtomicLong wrong = new AtomicLong();

    /// Tiles to one that is looked at; 0 for none.
    private volatile int every;

    void every(int tiles) {
        every = tiles;
    }

    /// Whether the tile with this number among those of its thread is looked at.
    boolean due(long tile) {
        int interval = every;
        return interval > 0 && tile % interval == 0;
    }

    @Override
    public long checked() {
        return checked.get();
    }

    @Override
    public long takeWrong() {
        return wrong.get() == 0 ? 0 : wrong.getAndSet(0);
    }

    /// @param block address of the block of a page, with keys in INT8
    /// @param token of that page
    /// @param parts room for `2 · headDim` floats
    /// @param score what was computed
    void score(CacheShape.Grouped shape, long block, int token, float[] q, int qOffset, float[] parts, float score) {
        int dim = shape.headDim();
        float unit = FixedPoint.split(q, qOffset, dim, parts, 0, dim);
        int sum = 0;
        for (int d = 0; d < dim; d++) {
            byte code = Memory.ALL.get(JAVA_BYTE, block + 4L * token + 64L * (d >> 2) + (d & 3));
            sum += code * (256 * (int) parts[d] + (int) parts[dim + d]);
        }
        judge((float) sum * unit * half(block + shape.keyScaleOffset() + 2L * token), score);
    }

    /// @param pages addresses of the pages, in order
    /// @param blockOffset bytes from the start of a page to the block
    /// @param tokens that the query sees
    /// @param p weights of the tokens, from `pOffset` on
    /// @param dimension of the values
    /// @param parts room for `3 · 16` floats
    /// @param result what was computed
    void sum(
            CacheShape.Grouped shape,
            long[] pages,
            long blockOffset,
            int tokens,
            float[] p,
            int pOffset,
            int dimension,
            float[] parts,
            float result) {
        int high = CacheShape.TOKENS;
        int low = 2 * CacheShape.TOKENS;
        float acc = 0;
        for (int from = 0; from < tokens; from += CacheShape.TOKENS) {
            long block = pages[from / CacheShape.TOKENS] + blockOffset;
            int n = Math.min(CacheShape.TOKENS, tokens - from);
            for (int t = 0; t < n; t++) {
                parts[t] = p[pOffset + from + t] * half(block + shape.valueScaleOffset() + 2L * t);
            }
            float unit = FixedPoint.split(parts, 0, n, parts, high, low);
            int sum = 0;
            long lane = block + shape.valueOffset() + 4L * dimension;
            for (int t = 0; t < n; t++) {
                byte code = Memory.ALL.get(JAVA_BYTE, lane + 4L * (t >> 2) * shape.valueLanes() + (t & 3));
                sum += code * (256 * (int) parts[high + t] + (int) parts[low + t]);
            }
            acc = Math.fma(unit, (float) sum, acc);
        }
        judge(acc, result);
    }

    private void judge(float expected, float got) {
        checked.incrementAndGet();
        // Where keys or values are not finite both are NaN, of whatever payload.
        if (Float.floatToIntBits(expected) != Float.floatToIntBits(got)) {
            wrong.incrementAndGet();
        }
    }

    private static float half(long address) {
        return Float.float16ToFloat(Memory.ALL.get(JAVA_SHORT, address));
    }

    /// Whether there are such products over this shape.
    static boolean covers(CacheShape shape) {
        return shape instanceof CacheShape.Grouped grouped && grouped.fixedPoint();
    }
}

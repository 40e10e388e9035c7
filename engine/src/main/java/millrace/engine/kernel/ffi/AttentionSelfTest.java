package millrace.engine.kernel.ffi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.cpu.Loops;
import org.jspecify.annotations.Nullable;

/// The part of [SelfTest] that reads the cache: every shape of a block, by tiles of every size.
final class AttentionSelfTest {
    private static final CacheShape[] SHAPES = {
        new CacheShape.Grouped(TileFormat.F32, 35),
        new CacheShape.Grouped(TileFormat.BF16, 35),
        new CacheShape.Grouped(TileFormat.INT8, 83),
        new CacheShape.Grouped(TileFormat.INT4, 64),
        new CacheShape.Latent(TileFormat.F32, TileFormat.F32, 33, 18),
        new CacheShape.Latent(TileFormat.BF16, TileFormat.BF16, 140, 18),
        new CacheShape.Latent(TileFormat.INT8, TileFormat.BF16, 140, 18),
        new CacheShape.Latent(TileFormat.FP8, TileFormat.BF16, 140, 18),
        new CacheShape.Latent(TileFormat.FP8, TileFormat.FP8, 140, 18)
    };
    private static final CacheShape.Keys[] INDEXES = {
        new CacheShape.Keys(TileFormat.F32, 35),
        new CacheShape.Keys(TileFormat.BF16, 35),
        new CacheShape.Keys(TileFormat.INT8, 83)
    };
    /// Tokens that stand alone, side by side, and in several pages.
    private static final int[] POSITIONS = {0, 2, 3, 5, 14, 15, 16, 17, 18, 19, 31, 37, 40, 48, 52, 59, 61, 70, 79};
    private static final int PAGES = 5;
    private static final int[] QUERIES = {1, 2, 7, 20};

    private final Loops tested;
    private final Loops specification;
    private final SplittableRandom random;

    AttentionSelfTest(Loops tested, Loops specification, SplittableRandom random) {
        this.tested = tested;
        this.specification = specification;
        this.random = random;
    }

    /// The first difference, or null.
    @Nullable String run() {
        for (CacheShape shape : SHAPES) {
            try (Arena arena = Arena.ofConfined()) {
                long[] pages = new long[PAGES];
                for (int p = 0; p < PAGES; p++) {
                    pages[p] = block(arena, shape).address();
                }
                for (int queries : QUERIES) {
                    if (differ(shape, pages, queries)) {
                        return "self-test: attention over " + shape + ", " + queries + " queries differs";
                    }
                }
                if (shape instanceof CacheShape.Latent latent && gathersOtherwise(arena, latent, pages)) {
                    return "self-test: chosen tokens of " + shape + " differ";
                }
            }
        }
        return index();
    }

    private @Nullable String index() {
        for (CacheShape.Keys shape : INDEXES) {
            try (Arena arena = Arena.ofConfined()) {
                long[] pages = new long[PAGES];
                for (int p = 0; p < PAGES; p++) {
                    pages[p] = block(arena, shape.blockBytes(), shape.fixedPoint() ? shape.scaleOffset() : 0).address();
                }
                for (int queries : QUERIES) {
                    if (differ(shape, pages, queries)) {
                        return "self-test: scores over " + shape + ", " + queries + " queries differ";
                    }
                }
            }
        }
        return null;
    }

    /// Whole words of random bits where codes are kept; small numbers elsewhere, also for all scales.
    private MemorySegment block(Arena arena, CacheShape shape) {
        long codes = switch (shape) {
            case CacheShape.Grouped g -> g.format().scaled() ? g.keyScaleOffset() : 0;
            case CacheShape.Latent l -> l.plain() ? l.scaleOffset() : l.latentFormat().scaled() ? l.ropeOffset() : 0;
        };
        return block(arena, shape.blockBytes(), codes);
    }

    private MemorySegment block(Arena arena, long bytes, long codes) {
        MemorySegment block = arena.allocate(bytes, Memory.ALIGNMENT);
        // As two BF16, a word whose halves are near 2⁻⁷ is also a small F32; as two F16 it is 1.5 or so.
        for (long at = 0; at < bytes; at += Integer.BYTES) {
            int word = random.nextInt();
            block.set(ValueLayout.JAVA_INT, at, at < codes ? word : word & 0x80FF_80FF | 0x3C00_3C00);
        }
        return block;
    }

    private boolean differ(CacheShape shape, long[] pages, int queries) {
        int stride = PAGES * CacheShape.TOKENS;
        float[] q = values(queries * shape.keyDim());
        float[] expected = new float[queries * stride];
        float[] got = expected.clone();
        float[] scratch = new float[shape.scratchFloats()];
        specification.scores(shape, pages, 0, PAGES, 0, q, 0, queries, expected, 0, stride, scratch);
        tested.scores(shape, pages, 0, PAGES, 0, q, 0, queries, got, 0, stride, scratch);
        if (!Arrays.equals(expected, got)) {
            return true;
        }
        float[] weights = values(queries * stride);
        float[] sums = values(queries * shape.valueLanes());
        float[] same = sums.clone();
        int tokens = 1 + queries % CacheShape.TOKENS;
        specification.sums(shape, pages, 0, PAGES, tokens, 0, weights, 0, stride, queries, sums, 0, scratch);
        tested.sums(shape, pages, 0, PAGES, tokens, 0, weights, 0, stride, queries, same, 0, scratch);
        return !Arrays.equals(sums, same);
    }

    private boolean differ(CacheShape.Keys shape, long[] pages, int queries) {
        int stride = PAGES * CacheShape.TOKENS;
        float[] q = values(queries * shape.dim());
        float[] expected = new float[queries * stride];
        float[] got = expected.clone();
        float[] scratch = new float[shape.scratchFloats()];
        specification.scores(shape, pages, 0, PAGES, 0, q, 0, queries, expected, 0, stride, scratch);
        tested.scores(shape, pages, 0, PAGES, 0, q, 0, queries, got, 0, stride, scratch);
        if (!Arrays.equals(expected, got)) {
            return true;
        }
        float[] weights = values(queries);
        int tokens = stride - queries;
        float[] scores = new float[tokens];
        float[] same = new float[tokens];
        specification.weigh(expected, 0, stride, queries, tokens, weights, 0, scores, 0);
        tested.weigh(expected, 0, stride, queries, tokens, weights, 0, same, 0);
        return !Arrays.equals(scores, same);
    }

    /// Blocks that end with a word's last token, so that no byte is undefined but of tokens that were not asked for.
    private boolean gathersOtherwise(Arena arena, CacheShape.Latent shape, long[] pages) {
        long bytes = 2 * shape.blockBytes();
        MemorySegment expected = arena.allocate(bytes, Memory.ALIGNMENT);
        MemorySegment got = arena.allocate(bytes, Memory.ALIGNMENT);
        int count = POSITIONS.length & -4;
        specification.gather(shape, pages, 0, POSITIONS, 1, count, expected.address());
        tested.gather(shape, pages, 0, POSITIONS, 1, count, got.address());
        return expected.mismatch(got) >= 0;
    }

    private float[] values(int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextDouble(-4, 4);
        }
        return values;
    }
}

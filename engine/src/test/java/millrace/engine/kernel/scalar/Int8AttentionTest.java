package millrace.engine.kernel.scalar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.SplittableRandom;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.TileFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Attention over INT8 against integers, written down once more, and against double precision with the bounds of the
/// contract.
final class Int8AttentionTest {
    private static final double UNIT = 0x1p-24;
    private static final int TOKENS = CacheShape.TOKENS;

    private final SplittableRandom random = new SplittableRandom(5);
    private final ScalarLoops loops = new ScalarLoops();

    @ParameterizedTest
    @ValueSource(ints = {1, 3, 4, 18, 64, 128, 192, 512})
    void scoresShouldBeThoseOfIntegers(int dim) {
        try (Arena arena = Arena.ofConfined()) {
            Cache cache = new Cache(arena, dim, 3);
            float[] q = gaussians(2 * dim + 1);
            float[] scores = scores(cache, q, 1, 2);
            for (int i = 0; i < 2; i++) {
                float[] query = Arrays.copyOfRange(q, 1 + i * dim, 1 + (i + 1) * dim);
                double most = max(query);
                double unit = unit(most);
                for (int t = 0; t < cache.tokens(); t++) {
                    long sum = 0;
                    double exact = 0;
                    double magnitude = 0;
                    for (int d = 0; d < dim; d++) {
                        sum += z(query[d], unit) * cache.key(t, d);
                        exact += (double) query[d] * cache.key(t, d);
                        magnitude += Math.abs(cache.key(t, d));
                    }
                    float score = scores[i * cache.tokens() + t];
                    float scale = cache.scale(cache.shape.keyScaleOffset(), t);
                    assertThat(sum).isEqualTo((int) sum);
                    assertThat(score).isEqualTo((float) sum * (float) unit * scale);
                    double bound = scale * (most / 32767 * magnitude) + 4 * UNIT * Math.abs(score);
                    assertThat((double) score).isCloseTo(exact * scale, within(bound));
                }
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 16})
    void sumsShouldBeThoseOfIntegersPageByPage(int tokens) {
        try (Arena arena = Arena.ofConfined()) {
            Cache cache = new Cache(arena, 40, 3);
            int lanes = cache.shape.valueLanes();
            float[] p = new float[cache.tokens()];
            for (int t = 0; t < p.length; t++) {
                p[t] = (float) Math.exp(-10 * random.nextDouble());
            }
            float[] acc = sums(cache, tokens, p, new float[lanes]);
            for (int d = 0; d < 40; d++) {
                float expected = 0;
                double exact = 0;
                double bound = 0;
                for (int page = 0; page < 3; page++) {
                    int n = page == 2 ? tokens : TOKENS;
                    float[] weights = new float[n];
                    for (int t = 0; t < n; t++) {
                        int at = TOKENS * page + t;
                        weights[t] = p[at] * cache.scale(cache.shape.valueScaleOffset(), at);
                    }
                    double unit = unit(max(weights));
                    long sum = 0;
                    for (int t = 0; t < n; t++) {
                        int code = cache.value(TOKENS * page + t, d);
                        sum += z(weights[t], unit) * code;
                        exact += (double) weights[t] * code;
                        bound += (max(weights) / 32767 + 8 * UNIT * weights[t]) * Math.abs(code);
                    }
                    expected = Math.fma((float) unit, (float) sum, expected);
                }
                assertThat(acc[d]).isEqualTo(expected);
                assertThat((double) acc[d]).isCloseTo(exact, within(bound));
            }
        }
    }

    @Test
    void sumsOfTheLargestNumbersShouldNotOverflow() {
        try (Arena arena = Arena.ofConfined()) {
            Cache cache = new Cache(arena, CacheShape.Grouped.MOST_INT8_DIM, 1);
            cache.block(0).asSlice(0, cache.shape.keyScaleOffset()).fill((byte) -127);
            float[] q = new float[cache.shape.headDim()];
            Arrays.fill(q, -0x1p7f);
            float[] scores = scores(cache, q, 0, 1);
            float sum = 16384f * 127 * q.length;
            assertThat(scores[0]).isEqualTo(sum * 0x1p-7f * cache.scale(cache.shape.keyScaleOffset(), 0));
            Arrays.fill(q, Math.nextDown(0x1p7f));
            scores = scores(cache, q, 0, 1);
            sum = -32767f * 127 * q.length;
            assertThat(scores[0]).isEqualTo(sum * 0x1p-8f * cache.scale(cache.shape.keyScaleOffset(), 0));
        }
    }

    @Test
    void whatIsNotFiniteShouldReachTheResult() {
        try (Arena arena = Arena.ofConfined()) {
            Cache cache = new Cache(arena, 24, 2);
            for (float odd : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
                float[] q = gaussians(24);
                q[17] = odd;
                float[] scores = scores(cache, q, 0, 1);
                float[] p = new float[cache.tokens()];
                Arrays.fill(p, 0.5f);
                p[3] = odd;
                float[] acc = sums(cache, TOKENS, p, new float[cache.shape.valueLanes()]);
                for (int d = 0; d < 24; d++) {
                    assertThat(scores[d]).isNaN();
                    assertThat(acc[d]).isNaN();
                }
            }
        }
    }

    @Test
    void tokensThatDoNotCountShouldLeaveNoTrace() {
        try (Arena arena = Arena.ofConfined()) {
            Cache cache = new Cache(arena, 24, 1);
            float[] p = gaussians(TOKENS);
            float[] before = sums(cache, 5, p, new float[cache.shape.valueLanes()]);
            cache.block(0).set(ValueLayout.JAVA_SHORT, cache.shape.valueScaleOffset() + 2 * 5, (short) 0x7E00);
            p[6] = Float.NaN;
            p[7] = 1e30f;
            assertThat(sums(cache, 5, p, new float[cache.shape.valueLanes()])).isEqualTo(before);
        }
    }

    @Test
    void smallNumbersShouldKeepTheirSixteenBits() {
        try (Arena arena = Arena.ofConfined()) {
            Cache cache = new Cache(arena, 24, 1);
            float[] q = gaussians(24);
            float[] scores = scores(cache, q, 0, 1);
            for (int d = 0; d < q.length; d++) {
                q[d] *= 0x1p-60f;
            }
            float[] smaller = scores(cache, q, 0, 1);
            for (int t = 0; t < TOKENS; t++) {
                assertThat(smaller[t]).isEqualTo(scores[t] * 0x1p-60f);
            }
            Arrays.fill(q, Float.MIN_VALUE);
            assertThat(scores(cache, q, 0, 1)).containsOnly(0f);
        }
    }

    /// `unit` of the contract, of numbers of which none is far below 1.
    private static double unit(double most) {
        return Math.scalb(1.0, Math.getExponent(most) - 14);
    }

    private static long z(float x, double unit) {
        return Math.min(32767, (long) Math.rint(x / unit));
    }

    private static double max(float[] x) {
        double max = 0;
        for (float value : x) {
            max = Math.max(max, Math.abs(value));
        }
        return max;
    }

    private float[] gaussians(int n) {
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = (float) random.nextGaussian();
        }
        return x;
    }

    private float[] scores(Cache cache, float[] q, int offset, int queries) {
        float[] scores = new float[queries * cache.tokens()];
        loops.scores(cache.shape, cache.pages(), 0, cache.blocks.length, 0, q, offset, queries, scores, 0,
                cache.tokens(), new float[cache.shape.scratchFloats()]);
        return scores;
    }

    private float[] sums(Cache cache, int tokens, float[] p, float[] acc) {
        loops.sums(cache.shape, cache.pages(), 0, cache.blocks.length, tokens, 0, p, 0, cache.tokens(), 1, acc, 0,
                new float[cache.shape.scratchFloats()]);
        return acc;
    }

    /// Blocks of random codes and scales.
    private final class Cache {
        final CacheShape.Grouped shape;
        final MemorySegment[] blocks;

        Cache(Arena arena, int dim, int pages) {
            shape = new CacheShape.Grouped(TileFormat.INT8, dim);
            blocks = new MemorySegment[pages];
            for (int i = 0; i < pages; i++) {
                blocks[i] = arena.allocate(shape.blockBytes(), Memory.ALIGNMENT);
                for (long at = 0; at < shape.keyScaleOffset(); at++) {
                    blocks[i].set(ValueLayout.JAVA_BYTE, at, (byte) random.nextInt(-127, 128));
                }
                for (long at = shape.keyScaleOffset(); at < shape.blockBytes(); at += 2) {
                    float scale = (float) random.nextDouble(0.01, 2);
                    blocks[i].set(ValueLayout.JAVA_SHORT, at, Float.floatToFloat16(scale));
                }
            }
        }

        int tokens() {
            return TOKENS * blocks.length;
        }

        long[] pages() {
            return Arrays.stream(blocks).mapToLong(MemorySegment::address).toArray();
        }

        MemorySegment block(int i) {
            return blocks[i];
        }

        int key(int token, int d) {
            return blocks[token / TOKENS].get(ValueLayout.JAVA_BYTE, 64L * (d / 4) + 4L * (token % TOKENS) + d % 4);
        }

        int value(int token, int d) {
            int slot = token % TOKENS;
            long word = (long) (slot / 4) * shape.valueLanes() + d;
            return blocks[token / TOKENS].get(ValueLayout.JAVA_BYTE, shape.valueOffset() + 4 * word + slot % 4);
        }

        float scale(long offset, int token) {
            return Float.float16ToFloat(
                    blocks[token / TOKENS].get(ValueLayout.JAVA_SHORT, offset + 2L * (token % TOKENS)));
        }
    }
}

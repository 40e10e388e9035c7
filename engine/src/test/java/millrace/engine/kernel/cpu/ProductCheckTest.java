package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import millrace.engine.Products;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.TileFormat;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Products of integers in attention over INT8, computed a second time.
final class ProductCheckTest {
    private static final int HEADS = 6;
    private static final int KV_HEADS = 2;
    private static final int ROWS = 37;
    private static final CacheShape.Grouped SHAPE = new CacheShape.Grouped(TileFormat.INT8, 24);

    @ParameterizedTest
    @ValueSource(strings = {"scalar", "vector", "auto"})
    void soundLoopsAreNeverReported(String name) {
        try (Backend backend = Backend.open(name, 2)) {
            Products products = backend.kernels().products(1);
            for (int seed = 0; seed < 20; seed++) {
                attend(backend.kernels(), SHAPE, seed, seed % 5 == 0 ? 1e-30f : seed % 7 == 0 ? 1e30f : 1);
            }
            // Rows of three queries a KV head in tiles of at most 16: each gives a score and a sum.
            assertThat(products.checked()).isGreaterThanOrEqualTo(20L * 2 * KV_HEADS * (ROWS * 3 / 16));
            assertThat(products.takeWrong()).isZero();
        }
    }

    @Test
    void numbersThatAreNotFiniteAreNoFaultOfTheLoops() {
        try (Backend backend = Backend.open("vector", 1)) {
            Products products = backend.kernels().products(1);
            attend(backend.kernels(), SHAPE, 1, Float.POSITIVE_INFINITY);
            assertThat(products.checked()).isPositive();
            assertThat(products.takeWrong()).isZero();
        }
    }

    @Test
    void lookAtOneOfSoManyTilesAndAtNoneWithoutIntegers() {
        try (Backend backend = Backend.open("scalar", 1)) {
            Products products = backend.kernels().products(0);
            attend(backend.kernels(), SHAPE, 1, 1);
            assertThat(products.checked()).isZero();
            backend.kernels().products(1_000_000);
            for (int i = 0; i < 10; i++) {
                attend(backend.kernels(), SHAPE, i, 1);
            }
            assertThat(products.checked()).isLessThanOrEqualTo(2);
            backend.kernels().products(1);
            long before = products.checked();
            attend(backend.kernels(), new CacheShape.Grouped(TileFormat.BF16, 24), 1, 1);
            assertThat(products.checked()).isEqualTo(before);
        }
    }

    @Test
    void oneUnitInTheLastPlaceIsFound() {
        try (Arena arena = Arena.ofConfined();
                Backend backend = Backend.open("scalar", 1)) {
            int dim = SHAPE.headDim();
            long block = Memory.allocate(arena, SHAPE.blockBytes(), "a test").address();
            var batch = new CacheBatch(1);
            batch.add(new long[] {block}, 1, 0, 16, 0);
            Rows keys = random(new SplittableRandom(5), dim, 1);
            backend.kernels().store(SHAPE, batch, 0, 1, keys, keys);
            float[] q = random(new SplittableRandom(6), dim, 1).values();
            float[] scores = new float[16];
            float[] scratch = new float[SHAPE.scratchFloats()];
            new ScalarLoops().scores(SHAPE, new long[] {block}, 0, 1, 0, q, 0, 1, scores, 0, 16, scratch);
            float[] sums = new float[SHAPE.valueLanes()];
            new ScalarLoops().sums(SHAPE, new long[] {block}, 0, 1, 11, 0, scores, 0, 16, 1, sums, 0, scratch);
            var check = new ProductCheck();
            for (int token = 0; token < 16; token++) {
                check.score(SHAPE, block, token, q, 0, scratch, scores[token]);
                assertThat(check.takeWrong()).isZero();
                check.score(SHAPE, block, token, q, 0, scratch, Math.nextUp(scores[token]));
                assertThat(check.takeWrong()).isOne();
            }
            for (int d = 0; d < dim; d++) {
                check.sum(SHAPE, new long[] {block}, 0, 11, scores, 0, d, scratch, sums[d]);
                assertThat(check.takeWrong()).isZero();
                check.sum(SHAPE, new long[] {block}, 0, 11, scores, 0, d, scratch, Math.nextDown(sums[d]));
                assertThat(check.takeWrong()).as("once").isOne();
                assertThat(check.takeWrong()).as("asked again").isZero();
            }
            assertThat(check.checked()).isEqualTo(2L * (16 + dim));
        }
    }

    private static void attend(Kernels kernels, CacheShape.Grouped shape, int seed, float factor) {
        var random = new SplittableRandom(seed);
        int pages = (ROWS + 15) / 16;
        try (Arena arena = Arena.ofConfined()) {
            long pageBytes = KV_HEADS * shape.blockBytes();
            long memory = Memory.allocate(arena, pages * pageBytes, "a test").address();
            long[] addresses = new long[pages];
            for (int p = 0; p < pages; p++) {
                addresses[p] = memory + (pages - 1 - p) * pageBytes;
            }
            var batch = new CacheBatch(1);
            batch.add(addresses, pages, 0, ROWS, 0);
            int dim = shape.headDim();
            Rows k = random(random, KV_HEADS * dim, factor);
            Rows v = random(random, KV_HEADS * dim, factor);
            kernels.store(shape, batch, 0, KV_HEADS, k, v);
            Rows q = random(random, HEADS * dim, 1);
            kernels.attend(shape, batch, 0, HEADS, KV_HEADS, 0.2f, q, Rows.allocate(ROWS, HEADS * dim));
        }
    }

    private static Rows random(SplittableRandom random, int width, float factor) {
        Rows rows = Rows.allocate(ROWS, width);
        for (int i = 0; i < rows.values().length; i++) {
            rows.values()[i] = (float) random.nextDouble(-3, 3) * factor;
        }
        return rows;
    }
}

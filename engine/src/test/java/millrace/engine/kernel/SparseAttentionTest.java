package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import millrace.engine.KvFormat;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.ffi.NativeTier;
import millrace.engine.kernel.scalar.ScalarLoops;
import millrace.engine.kernel.vector.VectorLoops;
import millrace.engine.kv.KvLayout;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/// The choice of positions against one that sorts all of them, and attention over chosen ones against attention over a
/// sequence that has no others: on every backend, however rows are cut into steps and work into threads.
final class SparseAttentionTest {
    private static final int PAGE = CacheShape.TOKENS;
    private static final float SCALE = 0.37f;

    private final Arena arena = Arena.ofShared();
    private final SplittableRandom random = new SplittableRandom(20261130);

    @AfterEach
    void close() {
        arena.close();
    }

    /// One sequence with index keys and latents of every position.
    ///
    /// @param offset bytes from the start of a page to its only block
    private record Cache(long[] pages, int tokens, long offset) {
        /// Rows `from` to `tokens − 1` as one segment each of at most so many rows.
        CacheBatch batch(int from, int chunk, int rowsBefore) {
            var batch = new CacheBatch(tokens);
            for (int start = from; start < tokens; start += chunk) {
                int n = Math.min(chunk, tokens - start);
                batch.add(pages, pages.length, rowsBefore + start - from, n, start);
            }
            return batch;
        }
    }

    private Cache cache(long blockBytes, int tokens) {
        int count = (tokens + PAGE - 1) / PAGE;
        long address = arena.allocate(count * (64 + blockBytes), Memory.ALIGNMENT).address();
        long[] pages = new long[count];
        // Neighbours in the sequence are none in memory.
        for (int p = 0; p < count; p++) {
            pages[p] = address + (long) (count - 1 - p) * (64 + blockBytes);
        }
        return new Cache(pages, tokens, 64);
    }

    private Rows rows(int rows, int width) {
        Rows all = Rows.allocate(rows, width);
        for (int i = 0; i < rows * width; i++) {
            all.values()[i] = (float) random.nextGaussian();
        }
        return all;
    }

    private Rows slice(Rows rows, int from, int count) {
        float[] values = Arrays.copyOfRange(rows.values(), from * rows.width(), (from + count) * rows.width());
        return new Rows(values, 0, rows.width(), rows.width());
    }

    static Stream<Kernels> backends() {
        Stream<Kernels> java = Stream.of(
                new CpuKernels(new ScalarLoops(), 1), new CpuKernels(new ScalarLoops(), 3), new CpuKernels(new VectorLoops(), 2));
        if (NativeTier.missing(new ScalarLoops()) != null) {
            return java;
        }
        return Stream.concat(java, Stream.of(
                new CpuKernels(NativeTier.loops(), 1), new CpuKernels(NativeTier.loops(), 2), new CpuKernels(NativeTier.loops(), 7)));
    }

    // ---------------------------------------------------------------------------------------------------- the choice

    /// Index keys as they are stored, and what is asked of them.
    private final class Index {
        final CacheShape.Keys shape;
        final int heads;
        final Cache cache;
        final Rows q;
        final Rows weights;

        Index(TileFormat format, int dim, int heads, int tokens) {
            this(format, dim, heads, tokens, null);
        }

        Index(TileFormat format, int dim, int heads, int tokens, Rows keys) {
            shape = new CacheShape.Keys(format, dim);
            this.heads = heads;
            cache = cache(shape.blockBytes(), tokens);
            q = rows(tokens, heads * dim);
            weights = rows(tokens, heads);
            try (CpuKernels kernels = new CpuKernels(new ScalarLoops(), 1)) {
                Rows stored = keys == null ? rows(tokens, dim) : keys;
                kernels.store(shape, cache.batch(0, tokens, 0), cache.offset(), stored);
            }
        }

        /// Counts and chosen positions of the rows from `from` on, in steps of so many rows and segments of so many.
        int[][] select(Kernels kernels, int most, int from, int step, int chunk) {
            int[][] all = new int[cache.tokens() - from][];
            for (int start = from; start < cache.tokens(); start += step) {
                int n = Math.min(step, cache.tokens() - start);
                Selection selection = kernels.selection(n, most);
                Arrays.fill(selection.counts(), -7);
                var part = new Cache(cache.pages(), start + n, cache.offset());
                kernels.select(shape, part.batch(start, chunk, 0), cache.offset(), heads, SCALE, slice(q, start, n),
                        slice(weights, start, n), selection);
                for (int i = 0; i < n; i++) {
                    all[start - from + i] = chosen(selection, i, start + i + 1);
                }
            }
            return all;
        }

        /// The choice of one row, by sorting all that it sees by the scores of the specification.
        int[] expected(int row, int most) {
            int seen = row + 1;
            int pages = (seen + PAGE - 1) / PAGE;
            float[] scores = new float[seen];
            float[] dots = new float[heads * pages * PAGE];
            var loops = new ScalarLoops();
            for (int h = 0; h < heads; h++) {
                loops.scores(shape, cache.pages(), 0, pages, cache.offset(), q.values(), q.at(row) + h * shape.dim(), 1, dots,
                        h * pages * PAGE, pages * PAGE, new float[shape.scratchFloats()]);
            }
            for (int t = 0; t < seen; t++) {
                for (int h = 0; h < heads; h++) {
                    float weight = weights.values()[weights.at(row) + h] * SCALE;
                    scores[t] = Math.fma(weight, Math.max(0f, dots[h * pages * PAGE + t]), scores[t]);
                }
            }
            // NaN is the largest float of an order in which −0 is less than 0; here they are equal.
            return IntStream.range(0, seen).boxed()
                    .sorted((a, b) -> {
                        int order = Float.compare(scores[b] + 0f, scores[a] + 0f);
                        return order != 0 ? order : Integer.compare(a, b);
                    })
                    .limit(most).mapToInt(i -> i).sorted().toArray();
        }
    }

    private static int[] chosen(Selection selection, int row, int seen) {
        int count = selection.counts()[row];
        if (seen <= selection.most()) {
            assertThat(count).isEqualTo(Selection.ALL);
            return IntStream.range(0, seen).toArray();
        }
        return Arrays.copyOfRange(selection.positions(), row * selection.most(), row * selection.most() + count);
    }

    @ParameterizedTest
    @CsvSource({
        "F32, 32, 4, 1, 40", "F32, 35, 1, 7, 65", "BF16, 128, 32, 64, 130", "BF16, 35, 16, 8, 97", "INT8, 128, 64, 7, 81",
        "INT8, 35, 3, 64, 200", "INT8, 128, 32, 64, 63", "BF16, 32, 5, 64, 64"
    })
    void choiceShouldBeThatOfSorting(TileFormat format, int dim, int heads, int most, int tokens) {
        Index index = new Index(format, dim, heads, tokens);
        backends().forEach(kernels -> {
            try (kernels) {
                int[][] whole = index.select(kernels, most, 0, tokens, tokens);
                for (int row = 0; row < tokens; row++) {
                    assertThat(whole[row]).as("row %d", row).isEqualTo(index.expected(row, most));
                }
                assertThat(index.select(kernels, most, tokens / 2, 1, 1)).as("token by token")
                        .isEqualTo(Arrays.copyOfRange(whole, tokens / 2, tokens));
                assertThat(index.select(kernels, most, 3, 11, 11)).as("in chunks")
                        .isEqualTo(Arrays.copyOfRange(whole, 3, tokens));
                assertThat(index.select(kernels, most, 3, tokens, 1)).as("each row a segment")
                        .isEqualTo(Arrays.copyOfRange(whole, 3, tokens));
            }
        });
    }

    @ParameterizedTest
    @CsvSource({"2048, 5000", "2048, 2049", "600, 3000"})
    void choiceAmongManyShouldBeThatOfSorting(int most, int tokens) {
        Index index = new Index(TileFormat.INT8, 32, 4, tokens);
        backends().forEach(kernels -> {
            try (kernels) {
                int[][] last = index.select(kernels, most, tokens - 2, 1, 1);
                assertThat(last[0]).isEqualTo(index.expected(tokens - 2, most));
                assertThat(last[1]).isEqualTo(index.expected(tokens - 1, most));
                assertThat(index.select(kernels, most, tokens - 12, 12, 12)[11]).isEqualTo(last[1]);
            }
        });
    }

    @Test
    void ofEqualScoresTheLowerPositionShouldWin() {
        Rows keys = Rows.allocate(1500, 32);
        // Three different keys; the weights of some heads are negative, and zeros beat what they make of a key.
        for (int t = 0; t < 1500; t++) {
            Arrays.fill(keys.values(), 32 * t, 32 * t + 32, (t * 7 % 3 - 1) * 0.5f);
        }
        Index index = new Index(TileFormat.F32, 32, 4, 1500, keys);
        backends().forEach(kernels -> {
            try (kernels) {
                for (int most : new int[] {1, 100, 512, 1024}) {
                    int[][] chosen = index.select(kernels, most, 1480, 20, 20);
                    for (int i = 0; i < 20; i++) {
                        assertThat(chosen[i]).isEqualTo(index.expected(1480 + i, most));
                    }
                }
            }
        });
    }

    @Test
    void equalScoresShouldGiveTheFirstPositions() {
        Index index = new Index(TileFormat.BF16, 16, 2, 3000, Rows.allocate(3000, 16));
        backends().forEach(kernels -> {
            try (kernels) {
                assertThat(index.select(kernels, 700, 2999, 1, 1)[0]).isEqualTo(IntStream.range(0, 700).toArray());
            }
        });
    }

    @ParameterizedTest
    @CsvSource({"F32", "BF16", "INT8"})
    void whatIsNoNumberShouldBeChosen(TileFormat format) {
        Rows keys = rows(900, 16);
        for (int t : new int[] {3, 511, 512, 700}) {
            keys.values()[t * 16 + 5] = t == 511 ? Float.POSITIVE_INFINITY : Float.NaN;
        }
        Index index = new Index(format, 16, 4, 900, keys);
        backends().forEach(kernels -> {
            try (kernels) {
                int[] chosen = index.select(kernels, 5, 899, 1, 1)[0];
                assertThat(chosen).isEqualTo(index.expected(899, 5)).contains(3, 512, 700);
            }
        });
    }

    @Test
    void rowsOfSeveralSequencesShouldNotMeet() {
        Index one = new Index(TileFormat.INT8, 32, 8, 700);
        Index other = new Index(TileFormat.INT8, 32, 8, 90);
        backends().forEach(kernels -> {
            try (kernels) {
                var batch = new CacheBatch(3);
                batch.add(other.cache.pages(), other.cache.pages().length, 0, 5, 85);
                batch.add(one.cache.pages(), one.cache.pages().length, 5, 1, 300);
                batch.add(one.cache.pages(), one.cache.pages().length, 6, 20, 680);
                Rows q = Rows.allocate(26, 8 * 32);
                Rows weights = Rows.allocate(26, 8);
                copy(other, 85, 5, q, weights, 0);
                copy(one, 300, 1, q, weights, 5);
                copy(one, 680, 20, q, weights, 6);
                Selection selection = kernels.selection(26, 87);
                kernels.select(one.shape, batch, 64, 8, SCALE, q, weights, selection);
                for (int i = 0; i < 5; i++) {
                    assertThat(chosen(selection, i, 86 + i)).isEqualTo(other.expected(85 + i, 87));
                }
                assertThat(chosen(selection, 5, 301)).isEqualTo(one.expected(300, 87));
                for (int i = 0; i < 20; i++) {
                    assertThat(chosen(selection, 6 + i, 681 + i)).isEqualTo(one.expected(680 + i, 87));
                }
                int[] wanted = chosen(selection, 25, 700);
                kernels.gather(selection, new int[] {0, 5, 25}, 3);
                assertThat(chosen(selection, 2, 700)).isEqualTo(wanted);
                assertThat(selection.counts()).startsWith(Selection.ALL, 87, 87);
            }
        });
    }

    private static void copy(Index from, int first, int count, Rows q, Rows weights, int to) {
        System.arraycopy(from.q.values(), from.q.at(first), q.values(), q.at(to), count * q.width());
        System.arraycopy(from.weights.values(), from.weights.at(first), weights.values(), weights.at(to), count * weights.width());
    }

    // ------------------------------------------------------------------------------------------------- over the chosen

    private static final int RANK = 140;
    private static final int ROPE = 18;
    private static final int NOPE = 10;

    static Stream<KvFormat> formats() {
        return Stream.of(KvFormat.F32, KvFormat.BF16, KvFormat.INT8, KvFormat.FP8, KvFormat.FP8_PLAIN);
    }

    private CacheShape.Latent shape(KvFormat format) {
        return (CacheShape.Latent) KvLayout.latent(format, 1, RANK, ROPE).shape();
    }

    /// Latents of so many tokens, as they are stored.
    private Cache stored(CacheShape.Latent shape, Rows latents, Rows ropes, int tokens) {
        Cache cache = cache(shape.blockBytes(), tokens);
        try (CpuKernels kernels = new CpuKernels(new ScalarLoops(), 1)) {
            kernels.store(shape, cache.batch(0, tokens, 0), cache.offset(), latents, ropes);
        }
        return cache;
    }

    @ParameterizedTest
    @MethodSource("formats")
    void chosenTokensShouldBeReadAsIfTheyFollowedOneAnother(KvFormat format) {
        int tokens = 100;
        int heads = 5;
        int most = 37;
        CacheShape.Latent shape = shape(format);
        Rows latents = rows(tokens, RANK);
        Rows ropes = rows(tokens, ROPE);
        Cache cache = stored(shape, latents, ropes, tokens);
        Rows latentQ = rows(tokens, heads * RANK);
        Rows q = rows(tokens, heads * (NOPE + ROPE));
        Selection selection = choices(tokens, most);
        Rows expected = Rows.allocate(tokens, heads * RANK);
        try (CpuKernels kernels = new CpuKernels(new ScalarLoops(), 1)) {
            for (int row = 0; row < tokens; row++) {
                int[] chosen = positions(selection, row);
                Cache alone = stored(shape, chosen(latents, chosen), chosen(ropes, chosen), chosen.length);
                Rows out = Rows.allocate(1, heads * RANK);
                kernels.attend(shape, alone.batch(chosen.length - 1, 1, 0), alone.offset(), heads, SCALE,
                        slice(latentQ, row, 1), slice(q, row, 1), out);
                System.arraycopy(out.values(), 0, expected.values(), expected.at(row), out.width());
            }
        }
        backends().forEach(kernels -> {
            try (kernels) {
                for (int chunk : new int[] {tokens, 9, 1}) {
                    Rows out = Rows.allocate(tokens, heads * RANK);
                    kernels.attend(shape, cache.batch(0, chunk, 0), cache.offset(), heads, SCALE, latentQ, q, selection, out);
                    assertThat(out.values()).as("segments of %d", chunk).isEqualTo(expected.values());
                }
                Rows last = Rows.allocate(1, heads * RANK);
                Selection one = Selection.onHeap(1, most);
                one.counts()[0] = selection.counts()[tokens - 1];
                System.arraycopy(selection.positions(), (tokens - 1) * most, one.positions(), 0, most);
                kernels.attend(shape, cache.batch(tokens - 1, 1, 0), cache.offset(), heads, SCALE,
                        slice(latentQ, tokens - 1, 1), slice(q, tokens - 1, 1), one, last);
                assertThat(last.values()).isEqualTo(slice(expected, tokens - 1, 1).values());
            }
        });
    }

    /// Any choices; some rows attend to everything, also behind those that do not.
    private Selection choices(int tokens, int most) {
        Selection selection = Selection.onHeap(tokens, most);
        for (int row = 0; row < tokens; row++) {
            int count = 1 + random.nextInt(Math.min(row + 1, most));
            int[] chosen = random.ints(0, row + 1).distinct().limit(count).sorted().toArray();
            System.arraycopy(chosen, 0, selection.positions(), row * most, count);
            selection.counts()[row] = row < 20 || random.nextInt(4) == 0 ? Selection.ALL : count;
        }
        return selection;
    }

    private static int[] positions(Selection selection, int row) {
        int count = selection.counts()[row];
        return count == Selection.ALL
                ? IntStream.rangeClosed(0, row).toArray()
                : Arrays.copyOfRange(selection.positions(), row * selection.most(), row * selection.most() + count);
    }

    private static Rows chosen(Rows rows, int[] positions) {
        Rows some = Rows.allocate(positions.length, rows.width());
        for (int i = 0; i < positions.length; i++) {
            System.arraycopy(rows.values(), rows.at(positions[i]), some.values(), some.at(i), rows.width());
        }
        return some;
    }

    @ParameterizedTest
    @MethodSource("formats")
    void allTokensByNameShouldGiveTheBitsOfAllTokens(KvFormat format) {
        int tokens = 83;
        int heads = 64;
        CacheShape.Latent shape = shape(format);
        Cache cache = stored(shape, rows(tokens, RANK), rows(tokens, ROPE), tokens);
        Rows latentQ = rows(tokens, heads * RANK);
        Rows q = rows(tokens, heads * (NOPE + ROPE));
        Selection named = Selection.onHeap(tokens, tokens);
        Arrays.setAll(named.counts(), row -> row + 1);
        Arrays.setAll(named.positions(), i -> i % tokens);
        backends().forEach(kernels -> {
            try (kernels) {
                Rows dense = Rows.allocate(tokens, heads * RANK);
                Rows sparse = Rows.allocate(tokens, heads * RANK);
                CacheBatch batch = cache.batch(0, tokens, 0);
                kernels.attend(shape, batch, cache.offset(), heads, SCALE, latentQ, q, dense);
                kernels.attend(shape, batch, cache.offset(), heads, SCALE, latentQ, q, named, sparse);
                assertThat(sparse.values()).isEqualTo(dense.values());
            }
        });
    }

    // ------------------------------------------------------------------------------------------------- norm and cache

    @ParameterizedTest
    @CsvSource({"1", "7", "16", "35", "128", "200"})
    void layerNormShouldBeThatOfDoublesAndOfTheSpecification(int n) {
        Rows x = rows(9, n);
        float[] weight = rows(1, n).values();
        float[] bias = rows(1, n).values();
        float[][] results = backends().map(kernels -> {
            try (kernels) {
                Rows y = Rows.allocate(9, n);
                kernels.layerNorm(y, x, weight, bias, 1e-6f, 9);
                Rows same = slice(x, 0, 9);
                kernels.layerNorm(same, same, weight, bias, 1e-6f, 9);
                assertThat(same.values()).as("in place").isEqualTo(y.values());
                return y.values();
            }
        }).toArray(float[][]::new);
        for (float[] result : results) {
            assertThat(result).isEqualTo(results[0]);
        }
        for (int row = 0; row < 9; row++) {
            double mean = IntStream.range(row * n, row * n + n).mapToDouble(i -> x.values()[i]).average().orElseThrow();
            double variance = IntStream.range(row * n, row * n + n)
                    .mapToDouble(i -> Math.pow(x.values()[i] - mean, 2)).average().orElseThrow();
            for (int d = 0; d < n; d++) {
                double expected = (x.values()[row * n + d] - mean) / Math.sqrt(variance + 1e-6) * weight[d] + bias[d];
                assertThat((double) results[0][row * n + d]).isCloseTo(expected, within(2e-5));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"F32, 35", "BF16, 35", "INT8, 35", "F32, 128", "BF16, 128", "INT8, 128"})
    void indexKeysShouldBeThoseOfAHead(TileFormat format, int dim) {
        CacheShape.Keys shape = new CacheShape.Keys(format, dim);
        CacheShape.Grouped head = new CacheShape.Grouped(format, dim);
        Rows keys = rows(40, dim);
        keys.values()[17] = Float.NaN;
        Arrays.fill(keys.values(), 5 * dim, 6 * dim, 0);
        Cache index = cache(shape.blockBytes(), 40);
        Cache both = cache(head.blockBytes(), 40);
        try (CpuKernels kernels = new CpuKernels(new ScalarLoops(), 2)) {
            kernels.store(shape, index.batch(0, 7, 0), index.offset(), keys);
            kernels.store(head, both.batch(0, 40, 0), both.offset(), 1, keys, keys);
        }
        for (int page = 0; page < 3; page++) {
            var one = Memory.ALL.asSlice(index.pages()[page] + index.offset(), shape.blockBytes());
            var other = Memory.ALL.asSlice(both.pages()[page] + both.offset(), head.blockBytes());
            assertThat(one.asSlice(0, shape.scaleOffset()).mismatch(other.asSlice(0, head.valueOffset()))).isEqualTo(-1);
            if (format.scaled()) {
                var scales = other.asSlice(head.keyScaleOffset(), 2 * PAGE);
                assertThat(one.asSlice(shape.scaleOffset(), 2 * PAGE).mismatch(scales)).isEqualTo(-1);
            }
        }
    }
}

package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.util.HashSet;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.scalar.ScalarLoops;
import millrace.engine.kernel.vector.VectorLoops;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// How many of the positions that F32 index keys choose are chosen with rounded ones: GLM-5.2's 2,048 of 32,768 by 32 heads of 128.
/// The figures of docs/long-context.md.
final class IndexFormatsTest {
    private static final int TOKENS = 32_768;
    private static final int MOST = 2_048;
    private static final int HEADS = 32;
    private static final int DIM = 128;
    private static final int ROWS = 4;

    /// @param common how much all keys have in common, in standard deviations of what they have not
    /// @param least share of the positions in percent
    @ParameterizedTest
    @CsvSource({"BF16, 0, 99.5", "BF16, 2, 99.5", "INT8, 0, 99", "INT8, 2, 98.7"})
    void roundedKeysShouldChooseNearlyTheSame(TileFormat format, float common, double least) {
        var random = new SplittableRandom(5);
        Rows keys = gaussian(random, TOKENS, DIM);
        Rows mean = gaussian(random, 1, DIM);
        for (int i = 0; i < TOKENS * DIM; i++) {
            keys.values()[i] += common * mean.values()[i % DIM];
        }
        Rows q = gaussian(random, ROWS, HEADS * DIM);
        Rows weights = gaussian(random, ROWS, HEADS);
        Selection exact = choose(TileFormat.F32, keys, q, weights);
        Selection rounded = choose(format, keys, q, weights);
        int same = 0;
        for (int row = 0; row < ROWS; row++) {
            Set<Integer> all = positions(exact, row);
            all.retainAll(positions(rounded, row));
            same += all.size();
        }
        double percent = 100.0 * same / (ROWS * MOST);
        assertThat(percent).isBetween(least, 100.0);
    }

    private static Set<Integer> positions(Selection selection, int row) {
        Set<Integer> positions = new HashSet<>();
        for (int i = 0; i < selection.counts()[row]; i++) {
            positions.add(selection.positions()[row * MOST + i]);
        }
        assertThat(positions).hasSize(MOST);
        return positions;
    }

    private static Selection choose(TileFormat format, Rows keys, Rows q, Rows weights) {
        var shape = new CacheShape.Keys(format, DIM);
        try (Arena arena = Arena.ofConfined();
                CpuKernels store = new CpuKernels(new ScalarLoops(), 1);
                CpuKernels kernels = new CpuKernels(new VectorLoops(), 2)) {
            long[] pages = new long[TOKENS / CacheShape.TOKENS];
            for (int p = 0; p < pages.length; p++) {
                pages[p] = arena.allocate(shape.blockBytes(), Memory.ALIGNMENT).address();
            }
            var all = new CacheBatch(1);
            all.add(pages, pages.length, 0, TOKENS, 0);
            store.store(shape, all, 0, keys);
            var last = new CacheBatch(1);
            last.add(pages, pages.length, 0, ROWS, TOKENS - ROWS);
            Selection selection = Selection.onHeap(ROWS, MOST);
            kernels.select(shape, last, 0, HEADS, 1, q, weights, selection);
            return selection;
        }
    }

    private static Rows gaussian(SplittableRandom random, int rows, int width) {
        Rows all = Rows.allocate(rows, width);
        for (int i = 0; i < rows * width; i++) {
            all.values()[i] = (float) random.nextGaussian();
        }
        return all;
    }
}

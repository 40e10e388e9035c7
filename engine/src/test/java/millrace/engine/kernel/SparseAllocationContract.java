package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.management.ManagementFactory;
import java.util.Objects;
import java.util.SplittableRandom;
import millrace.engine.KvFormat;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kv.KvLayout;
import org.junit.jupiter.api.Test;

/// Sparse attention allocates nothing once its code is compiled: the norm and store of an index key, the choice, and attention
/// over it. Each of these has a process of its own (see the pom).
abstract class SparseAllocationContract {
    private static final int STEPS = 20;
    /// A round is short, and a busy machine compiles late.
    private static final int ROUNDS = 20_000;
    private static final int HEADS = 8;
    private static final int RANK = 128;
    private static final int ROPE = 16;
    private static final int DIM = 64;
    private static final int MOST = 64;
    private static final int TOKENS = 200;

    private final Loops loops;

    SparseAllocationContract(Loops loops) {
        this.loops = loops;
    }

    @Test
    void decodingShouldAllocateNothing() {
        var threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (Arena arena = Arena.ofConfined();
                CpuKernels kernels = new CpuKernels(loops, 1)) {
            KvLayout layout = KvLayout.latent(KvFormat.FP8, 1, RANK, ROPE).withIndex(KvFormat.INT8, 1, DIM);
            long[] pages = new long[(TOKENS + STEPS) / CacheShape.TOKENS + 1];
            for (int p = 0; p < pages.length; p++) {
                pages[p] = arena.allocate(layout.pageBytes(), Memory.ALIGNMENT).address();
            }
            var steps = new Steps(kernels, layout, pages);
            long least = Long.MAX_VALUE;
            for (int round = 0; round < ROUNDS && least > 0; round++) {
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int i = 0; i < STEPS; i++) {
                    steps.decode(TOKENS + i);
                }
                least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
            }
            assertThat(least).as("bytes in %d steps", STEPS).isZero();
        }
    }

    /// One row after another, over whatever the pages hold.
    private static final class Steps {
        private final Kernels kernels;
        private final KvLayout layout;
        private final CacheShape.Latent shape;
        private final CacheShape.Keys index;
        private final long[] pages;
        private final CacheBatch batch = new CacheBatch(1);
        private final Selection selection = Selection.onHeap(1, MOST);
        private final Rows keys = random(DIM);
        private final Rows normed = random(DIM);
        private final Rows indexQ = random(HEADS * DIM);
        private final Rows weights = random(HEADS);
        private final Rows latentQ = random(HEADS * RANK);
        private final Rows q = random(HEADS * ROPE);
        private final Rows out = random(HEADS * RANK);
        private final float[] gain = new float[DIM];

        Steps(Kernels kernels, KvLayout layout, long[] pages) {
            this.kernels = kernels;
            this.layout = layout;
            this.pages = pages;
            shape = (CacheShape.Latent) layout.shape();
            index = Objects.requireNonNull(layout.index());
        }

        private static Rows random(int width) {
            Rows rows = Rows.allocate(1, width);
            var random = new SplittableRandom(width);
            for (int i = 0; i < width; i++) {
                rows.values()[i] = (float) random.nextGaussian();
            }
            return rows;
        }

        void decode(int position) {
            batch.clear();
            batch.add(pages, pages.length, 0, 1, position);
            kernels.layerNorm(normed, keys, gain, gain, 1e-6f, 1);
            kernels.store(index, batch, layout.indexOffset(0), normed);
            kernels.select(index, batch, layout.indexOffset(0), HEADS, 0.1f, indexQ, weights, selection);
            kernels.attend(shape, batch, layout.blockOffset(0, 0), HEADS, 0.1f, latentQ, q, selection, out);
        }
    }
}

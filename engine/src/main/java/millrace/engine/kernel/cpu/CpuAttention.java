package millrace.engine.kernel.cpu;

import java.util.Arrays;
import java.util.Objects;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Hadamard;
import millrace.engine.kernel.Rows;
import org.jspecify.annotations.Nullable;

/// Attention as a task: a unit is a tile of queries of one segment and KV head.
///
/// A query is one head of one row. Queries of a segment and KV head are numbered row by row, so that their positions
/// ascend. A unit goes over the pages twice, first for scores, then for the weighted sums, and reads each page once
/// per pass for all of its queries. Between the passes stands the softmax over whole rows of scores: there is no
/// running maximum, so the order of additions does not depend on where a page or a tile ends.
final class CpuAttention implements ThreadTeam.Task {
    private static final int PAGE = CacheShape.TOKENS;
    private static final int GROUPED_TILE = 16;
    // Decoding a latent costs more, and many heads share it: large tiles, but enough of them for every thread.
    private static final int LATENT_TILE = CacheShape.MOST_QUERIES;
    private static final int SMALLEST_TILE = 8;
    // Pages of one call of the loops: some ten microseconds, in which no thread can be stopped. They are a multiple of
    // those that loops take together, so that what is asked for ahead of time is seldom cut short.
    private static final int GROUPED_RUN = 128;
    private static final int LATENT_RUN = 32;

    private final Loops loops;
    private final Work[] work;
    private final Pass[] passes;
    private @Nullable CacheShape shape;
    private @Nullable CacheBatch batch;
    private @Nullable Rows q;
    private @Nullable Rows ropeQ;
    private @Nullable Rows out;
    private long layerOffset;
    private int kvHeads;
    private int group;
    private int tile;
    private int run;
    private int keyDim;
    private int valueDim;
    private int valueLanes;
    private boolean rotated;
    private float scale;
    private int[] firstUnit = new int[1];

    CpuAttention(Loops loops, int threads) {
        this.loops = loops;
        work = new Work[threads];
        for (int i = 0; i < threads; i++) {
            work[i] = new Work();
        }
        passes = new Pass[] {new Gather(), new Scores(), new Softmax(), new Sums(), new Scatter()};
    }

    /// Sets the next operation over keys and values; returns the number of its units.
    int prepare(
            CacheShape.Grouped grouped,
            CacheBatch cacheBatch,
            long offset,
            int heads,
            int kv,
            float factor,
            Rows queries,
            Rows result) {
        keyDim = grouped.headDim();
        valueDim = grouped.headDim();
        valueLanes = grouped.valueLanes();
        rotated = grouped.rotated();
        if (heads % kv != 0 || queries.width() != heads * keyDim || result.width() != heads * valueDim) {
            throw new IllegalArgumentException("attention: %d heads of %d, %d KV heads, query width %d, output width %d"
                    .formatted(heads, keyDim, kv, queries.width(), result.width()));
        }
        shape = grouped;
        q = queries;
        ropeQ = null;
        kvHeads = kv;
        tile = GROUPED_TILE;
        run = GROUPED_RUN;
        return prepare(cacheBatch, offset, heads, factor, result);
    }

    /// Sets the next operation over latents; returns the number of its units.
    int prepare(
            CacheShape.Latent latent,
            CacheBatch cacheBatch,
            long offset,
            int heads,
            float factor,
            Rows latentQueries,
            Rows queries,
            Rows result) {
        keyDim = latent.rank() + latent.ropeDim();
        valueDim = latent.rank();
        valueLanes = latent.valueLanes();
        rotated = false;
        int width = heads * valueDim;
        if (latentQueries.width() != width || queries.width() % heads != 0 || result.width() != width) {
            throw new IllegalArgumentException("attention: %d heads, rank %d, query widths %d and %d, output width %d"
                    .formatted(heads, valueDim, latentQueries.width(), queries.width(), result.width()));
        }
        shape = latent;
        q = latentQueries;
        ropeQ = queries;
        kvHeads = 1;
        tile = latentTile(cacheBatch, heads);
        run = LATENT_RUN;
        return prepare(cacheBatch, offset, heads, factor, result);
    }

    private int prepare(CacheBatch cacheBatch, long offset, int heads, float factor, Rows result) {
        batch = cacheBatch;
        layerOffset = offset;
        group = heads / kvHeads;
        scale = factor;
        out = result;
        if (firstUnit.length <= cacheBatch.count()) {
            firstUnit = new int[cacheBatch.capacity() + 1];
        }
        int units = 0;
        for (int s = 0; s < cacheBatch.count(); s++) {
            firstUnit[s] = units;
            units += kvHeads * tiles(cacheBatch.rows(s));
        }
        return units;
    }

    private int latentTile(CacheBatch cacheBatch, int heads) {
        int queries = 0;
        for (int s = 0; s < cacheBatch.count(); s++) {
            queries += cacheBatch.rows(s) * heads;
        }
        int share = (queries + work.length - 1) / work.length;
        return Math.clamp((share + 3) / 4 * 4, SMALLEST_TILE, LATENT_TILE);
    }

    private int tiles(int rows) {
        return (rows * group + tile - 1) / tile;
    }

    @Override
    public void run(int unit, int thread) {
        CacheBatch b = Objects.requireNonNull(batch);
        int segment = b.count() - 1;
        while (firstUnit[segment] > unit) {
            segment--;
        }
        int inSegment = unit - firstUnit[segment];
        Work w = work[thread];
        w.batch = b;
        w.segment = segment;
        w.head = inSegment % kvHeads;
        w.first = inSegment / kvHeads * tile;
        w.count = Math.min(tile, b.rows(segment) * group - w.first);
        CacheShape block = Objects.requireNonNull(shape);
        w.start = b.startPosition(segment);
        w.length = w.start + (w.first + w.count - 1) / group + 1;
        w.pages = (w.length + PAGE - 1) / PAGE;
        w.stride = w.pages * PAGE;
        w.blockOffset = layerOffset + w.head * block.blockBytes();
        w.reserve(keyDim, block.scratchFloats(), valueLanes);
        for (Pass pass : passes) {
            pass.run(w);
        }
    }

    /// A part of the computation of a tile.
    ///
    /// The parts are objects of several classes, called in turn from one place, because the compiler does not inline such
    /// a call. Were they methods, all loops would become one method, too large to be compiled to vectors throughout.
    private interface Pass {
        void run(Work w);
    }

    private final class Gather implements Pass {
        @Override
        public void run(Work w) {
            gather(w.batch().firstRow(w.segment), w.head, w.first, w.count, w.queries);
            if (rotated) {
                for (int i = 0; i < w.count; i++) {
                    Hadamard.rotate(w.queries, i * keyDim, keyDim);
                }
            }
        }
    }

    private final class Scores implements Pass {
        @Override
        public void run(Work w) {
            CacheShape block = Objects.requireNonNull(shape);
            long[] pages = w.batch().pages(w.segment);
            for (int page = 0; page < w.pages; page += run) {
                int skip = skipped(PAGE * page, w.start, w.first);
                loops.scores(
                        block,
                        pages,
                        page,
                        Math.min(run, w.pages - page),
                        w.blockOffset,
                        w.queries,
                        skip * keyDim,
                        w.count - skip,
                        w.scores,
                        skip * w.stride + PAGE * page,
                        w.stride,
                        w.scratch);
            }
        }
    }

    private final class Softmax implements Pass {
        @Override
        public void run(Work w) {
            for (int i = 0; i < w.count; i++) {
                w.sums[i] = loops.softmax(w.scores, i * w.stride, visible(w, i), scale, w.partials);
            }
        }
    }

    private final class Sums implements Pass {
        @Override
        public void run(Work w) {
            Arrays.fill(w.accumulators, 0, w.count * valueLanes, 0);
            // Pages that every query of the tile sees to their end; then those that some see in part.
            int whole = visible(w, 0) / PAGE;
            for (int page = 0; page < whole; page += run) {
                sums(w, page, Math.min(run, whole - page), PAGE, 0, w.count);
            }
            for (int page = whole; page < w.pages; page++) {
                int i = skipped(PAGE * page, w.start, w.first);
                while (i < w.count) {
                    int tokens = Math.min(PAGE, visible(w, i) - PAGE * page);
                    int next = i + 1;
                    while (next < w.count && Math.min(PAGE, visible(w, next) - PAGE * page) == tokens) {
                        next++;
                    }
                    sums(w, page, 1, tokens, i, next);
                    i = next;
                }
            }
        }

        private void sums(Work w, int page, int pages, int tokens, int from, int to) {
            loops.sums(
                    Objects.requireNonNull(shape),
                    w.batch().pages(w.segment),
                    page,
                    pages,
                    tokens,
                    w.blockOffset,
                    w.scores,
                    from * w.stride + PAGE * page,
                    w.stride,
                    to - from,
                    w.accumulators,
                    from * valueLanes,
                    w.scratch);
        }
    }

    private final class Scatter implements Pass {
        @Override
        public void run(Work w) {
            scatter(w.batch().firstRow(w.segment), w.head, w.first, w.count, w);
        }
    }

    /// Positions that a query of the tile sees.
    private int visible(Work w, int query) {
        return w.start + (w.first + query) / group + 1;
    }

    /// Queries of the tile that stand before position `from`: they see nothing of a page that begins there.
    private int skipped(int from, int start, int first) {
        return Math.max(0, (from - start) * group - first);
    }

    private void gather(int firstRow, int head, int first, int count, float[] queries) {
        Rows from = Objects.requireNonNull(q);
        int width = ropeQ == null ? keyDim : valueDim;
        for (int i = 0; i < count; i++) {
            int row = firstRow + (first + i) / group;
            int queryHead = head * group + (first + i) % group;
            System.arraycopy(from.values(), from.at(row) + queryHead * width, queries, i * keyDim, width);
            if (ropeQ != null) {
                int dim = ropeQ.width() / group;
                int rope = ropeQ.at(row) + (queryHead + 1) * dim - (keyDim - width);
                System.arraycopy(ropeQ.values(), rope, queries, i * keyDim + width, keyDim - width);
            }
        }
    }

    private void scatter(int firstRow, int head, int first, int count, Work s) {
        Rows to = Objects.requireNonNull(out);
        for (int i = 0; i < count; i++) {
            int row = firstRow + (first + i) / group;
            int o = to.at(row) + (head * group + (first + i) % group) * valueDim;
            float inverse = 1f / s.sums[i];
            for (int d = 0; d < valueDim; d++) {
                to.values()[o + d] = s.accumulators[i * valueLanes + d] * inverse;
            }
            if (rotated) {
                Hadamard.rotate(to.values(), o, valueDim);
            }
        }
    }

    /// The tile that a thread is at, and its working memory, which grows to what the longest sequence needs and stays.
    private static final class Work {
        @Nullable CacheBatch batch;
        int segment;
        int head;
        int first; // query of the segment and head
        int count; // queries
        int start; // position of the segment's first row
        int length; // positions that the last query sees
        int pages; // that hold them
        int stride; // floats from one query's scores to the next
        long blockOffset; // of the layer and head in a page
        float[] queries = new float[0];
        float[] scores = new float[0];
        float[] scratch = new float[0];
        float[] accumulators = new float[0];
        final float[] sums = new float[LATENT_TILE];
        final float[] partials = new float[16];

        CacheBatch batch() {
            return Objects.requireNonNull(batch);
        }

        void reserve(int keyDim, int scratchFloats, int valueLanes) {
            queries = grown(queries, count * keyDim);
            scores = grown(scores, Math.multiplyExact(count, stride));
            scratch = grown(scratch, scratchFloats);
            accumulators = grown(accumulators, count * valueLanes);
        }

        private static float[] grown(float[] array, int size) {
            return array.length >= size ? array : new float[Math.max(size, Math.min(2 * array.length, 1 << 28))];
        }
    }
}

package millrace.engine.kernel.cpu;

import java.util.Arrays;
import java.util.Objects;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Hadamard;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import org.jspecify.annotations.Nullable;

/// Attention as a task: a unit is a tile of queries of one span of rows and KV head.
///
/// A query is one head of one row. Queries of a span of rows and a KV head are numbered row by row, so that their positions
/// ascend. A unit goes over the pages twice, first for scores, then for the weighted sums, and reads each page once
/// per pass for all of its queries. Where a row reads chosen tokens, these are gathered before, once for all of its heads,
/// and stand in the place of its pages. Between the passes stands the softmax over whole rows of scores: there is no
/// running maximum, so the order of additions does not depend on where a page or a tile ends.
final class CpuAttention implements ThreadTeam.Task, AutoCloseable {
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
    private final ProductCheck check;
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
    private final Spans spans = new Spans();
    private final ChosenTokens chosen;
    private long products;

    CpuAttention(Loops loops, ProductCheck check, int threads) {
        this.loops = loops;
        this.check = check;
        chosen = new ChosenTokens(loops, threads);
        work = new Work[threads];
        for (int i = 0; i < threads; i++) {
            work[i] = new Work();
        }
        passes = new Pass[] {
            new Gather(), new Scores(), new CheckScores(), new Softmax(), new Sums(), new CheckSums(), new Scatter()
        };
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
        set(latent, heads, latentQueries, queries, result);
        tile = latentTile(rows(cacheBatch) * heads);
        return prepare(cacheBatch, offset, heads, factor, result);
    }

    /// Sets the next operation over chosen tokens, which begins with the units of [#gathering]; returns the number of the
    /// units that follow.
    int prepare(
            CacheShape.Latent latent,
            CacheBatch cacheBatch,
            long offset,
            int heads,
            float factor,
            Rows latentQueries,
            Rows queries,
            Selection selection,
            Rows result) {
        set(latent, heads, latentQueries, queries, result);
        begin(cacheBatch, offset, heads, factor, result);
        int sparse = sparseRows(cacheBatch, selection);
        if (sparse > 0) {
            chosen.prepare(latent, cacheBatch, offset, selection);
        }
        // A row for each thread as long as there are enough of them; all threads share the rows that are left.
        int alone = sparse / work.length * work.length;
        tile = latentTile((rows(cacheBatch) - alone) * heads);
        addChosen(cacheBatch, selection, 0, alone, false);
        addWhole(cacheBatch, selection);
        addChosen(cacheBatch, selection, alone, sparse, true);
        return spans.units();
    }

    /// What goes before an operation over chosen tokens.
    ChosenTokens gathering() {
        return chosen;
    }

    /// Multiplications and additions of the operation.
    long products() {
        return products;
    }

    private void set(CacheShape.Latent latent, int heads, Rows latentQueries, Rows queries, Rows result) {
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
        run = LATENT_RUN;
    }

    private int prepare(CacheBatch cacheBatch, long offset, int heads, float factor, Rows result) {
        begin(cacheBatch, offset, heads, factor, result);
        for (int s = 0; s < cacheBatch.count(); s++) {
            addPages(s, cacheBatch.firstRow(s), cacheBatch.rows(s), cacheBatch.startPosition(s));
        }
        return spans.units();
    }

    private void begin(CacheBatch cacheBatch, long offset, int heads, float factor, Rows result) {
        batch = cacheBatch;
        layerOffset = offset;
        group = heads / kvHeads;
        scale = factor;
        out = result;
        products = 0;
        spans.clear();
        chosen.clear();
    }

    private void addPages(int segment, int firstRow, int rows, int start) {
        add(segment, firstRow, rows, start, Spans.PAGES, kvHeads * ((rows * group + tile - 1) / tile));
    }

    private void add(int segment, int firstRow, int rows, int start, int slot, int units) {
        spans.add(segment, firstRow, rows, start, slot, units);
        products += 2L * rows * (start + rows) * Objects.requireNonNull(q).width();
    }

    private static int sparseRows(CacheBatch b, Selection selection) {
        int sparse = 0;
        for (int s = 0; s < b.count(); s++) {
            Objects.checkFromIndexSize(b.firstRow(s), b.rows(s), selection.maxRows());
            for (int row = b.firstRow(s); row < b.firstRow(s) + b.rows(s); row++) {
                sparse += selection.counts()[row] == Selection.ALL ? 0 : 1;
            }
        }
        return sparse;
    }

    /// Runs of rows that attend to everything.
    private void addWhole(CacheBatch b, Selection selection) {
        int[] counts = selection.counts();
        for (int s = 0; s < b.count(); s++) {
            int end = b.firstRow(s) + b.rows(s);
            for (int row = b.firstRow(s); row < end; row++) {
                int first = row;
                while (row < end && counts[row] == Selection.ALL) {
                    row++;
                }
                if (row > first) {
                    addPages(s, first, row - first, b.startPosition(s) + first - b.firstRow(s));
                }
            }
        }
    }

    /// Those of the rows with chosen tokens that have these numbers among themselves.
    private void addChosen(CacheBatch b, Selection selection, int from, int to, boolean shared) {
        int number = 0;
        for (int s = 0; s < b.count() && number < to; s++) {
            for (int row = b.firstRow(s); row < b.firstRow(s) + b.rows(s) && number < to; row++) {
                int count = selection.counts()[row];
                if (count != Selection.ALL && number++ >= from) {
                    int slot = shared ? chosen.share(row, s) : Spans.OWN;
                    add(s, row, 1, count - 1, slot, shared ? (group + tile - 1) / tile : 1);
                }
            }
        }
    }

    private static int rows(CacheBatch b) {
        int rows = 0;
        for (int s = 0; s < b.count(); s++) {
            rows += b.rows(s);
        }
        return rows;
    }

    private int latentTile(int queries) {
        int share = (queries + work.length - 1) / work.length;
        return Math.clamp((share + 3) / 4 * 4, SMALLEST_TILE, LATENT_TILE);
    }

    @Override
    public void run(int unit, int thread) {
        int span = spans.of(unit);
        int inSpan = unit - spans.firstUnit(span);
        Work w = work[thread];
        if (spans.slot(span) == Spans.OWN) {
            chosen.fill(spans.firstRow(span), spans.segment(span), thread);
            for (int first = 0; first < group; first += LATENT_TILE) {
                attend(w, span, chosen.blocks(thread), 0, first, Math.min(LATENT_TILE, group - first));
            }
        } else {
            int first = inSpan / kvHeads * tile;
            int count = Math.min(tile, spans.rows(span) * group - first);
            int slot = spans.slot(span);
            long[] pages =
                    slot == Spans.PAGES ? Objects.requireNonNull(batch).pages(spans.segment(span)) : chosen.blocks(slot);
            attend(w, span, pages, inSpan % kvHeads, first, count);
        }
    }

    private void attend(Work w, int span, long[] pages, int head, int first, int count) {
        CacheShape block = Objects.requireNonNull(shape);
        w.addresses = pages;
        w.firstRow = spans.firstRow(span);
        w.head = head;
        w.first = first;
        w.count = count;
        w.start = spans.start(span);
        w.length = w.start + (first + count - 1) / group + 1;
        w.pages = (w.length + PAGE - 1) / PAGE;
        w.stride = w.pages * PAGE;
        w.blockOffset = (spans.slot(span) == Spans.PAGES ? layerOffset : 0) + head * block.blockBytes();
        w.reserve(keyDim, block.scratchFloats(), valueLanes);
        w.checked = ProductCheck.covers(block) && check.due(w.tiles++);
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
            gather(w.firstRow, w.head, w.first, w.count, w.queries);
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
            long[] pages = w.addresses;
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

    /// One score of the tile, computed a second time.
    private final class CheckScores implements Pass {
        @Override
        public void run(Work w) {
            if (w.checked && shape instanceof CacheShape.Grouped grouped) {
                int query = w.pick(w.count);
                int token = w.pick(visible(w, query));
                long blockOfToken = w.addresses[token / PAGE] + w.blockOffset;
                float score = w.scores[query * w.stride + token];
                check.score(grouped, blockOfToken, token % PAGE, w.queries, query * keyDim, w.scratch, score);
            }
        }
    }

    /// One sum of values of the tile, computed a second time.
    private final class CheckSums implements Pass {
        @Override
        public void run(Work w) {
            if (w.checked && shape instanceof CacheShape.Grouped grouped) {
                int query = w.pick(w.count);
                int dimension = w.pick(valueDim);
                float sum = w.accumulators[query * valueLanes + dimension];
                check.sum(
                        grouped, w.addresses, w.blockOffset, visible(w, query), w.scores, query * w.stride, dimension,
                        w.scratch, sum);
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
                    w.addresses,
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
            scatter(w.firstRow, w.head, w.first, w.count, w);
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

    @Override
    public void close() {
        chosen.close();
    }

    /// The tile that a thread is at, and its working memory, which grows to what the longest sequence needs and stays.
    private static final class Work {
        long[] addresses = new long[0]; // of the pages that the rows read
        int firstRow; // of the span
        int head;
        int first; // query of the span and head
        int count; // queries
        int start; // position of the span's first row
        int length; // positions that the last query sees
        int pages; // that hold them
        int stride; // floats from one query's scores to the next
        long blockOffset; // of the layer and head in a page
        long tiles; // of this thread that had products of integers
        boolean checked; // whether some of them are computed twice
        long picks;
        float[] queries = new float[0];
        float[] scores = new float[0];
        float[] scratch = new float[0];
        float[] accumulators = new float[0];
        final float[] sums = new float[LATENT_TILE];
        final float[] partials = new float[16];

        /// A number below `n` that nobody can foresee from the tile alone.
        int pick(int n) {
            picks = picks * 6_364_136_223_846_793_005L + 1_442_695_040_888_963_407L;
            return (int) Math.floorMod(picks >> 33, (long) n);
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

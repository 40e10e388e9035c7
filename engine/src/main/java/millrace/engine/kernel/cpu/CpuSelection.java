package millrace.engine.kernel.cpu;

import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLongArray;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import org.jspecify.annotations.Nullable;

/// The choice of positions as a task: a unit is some rows of one segment, and all keys before them or a part of these.
///
/// A unit goes over its keys tile by tile. A tile is met by all rows of the unit while it is in the caches: scores of every
/// head, from these one score for each token, and those tokens that may be among the best of their row are kept. There is never
/// more of a row than some more candidates than it may have.
///
/// Where units are few, the keys of a row are shared among several, and [#merge] chooses among their choices. The choice is
/// exact, so that its bits do not depend on how work was cut.
final class CpuSelection implements ThreadTeam.Task {
    private static final int PAGE = CacheShape.TOKENS;
    /// Pages of a tile: 512 tokens, 64 to 256 KiB of keys of 128 dimensions.
    private static final int TILE = 32;
    /// Rows of a unit.
    private static final int GROUP = 8;
    /// Units for each thread, where there are not as many groups.
    private static final int UNITS = 2;
    private static final int TILE_TOKENS = TILE * PAGE;

    private final Loops loops;
    private final Work[] work;
    private final ThreadTeam.Task merge = this::merge;
    private CacheShape.@Nullable Keys shape;
    private @Nullable CacheBatch batch;
    private @Nullable Rows q;
    private @Nullable Rows weights;
    private @Nullable Selection selection;
    private long layerOffset;
    private int heads;
    private float scale;
    private long products;
    private int scratchFloats; // of the shape

    // Groups of rows.
    private int groups;
    private int[] segments = new int[0];
    private int[] firstRows = new int[0]; // of the segment
    private int[] rowCounts = new int[0];
    private int[] chosen = new int[0]; // rows of the groups before

    // Rows, numbered through all groups.
    private int rows;
    private int parts; // of the keys of a row
    private int[] rowSegments = new int[0];
    private int[] rowNumbers = new int[0]; // of the step
    private AtomicLongArray floors = new AtomicLongArray(0);
    private long[] found = new long[0];
    private int[] foundCounts = new int[0];

    CpuSelection(Loops loops, int threads) {
        this.loops = loops;
        work = new Work[threads];
        Arrays.setAll(work, i -> new Work());
    }

    /// Sets the next operation; rows that attend to everything are done with this. Returns the number of units.
    int prepare(
            CacheShape.Keys keys,
            CacheBatch cacheBatch,
            long offset,
            int headCount,
            float factor,
            Rows queries,
            Rows headWeights,
            Selection result) {
        if (queries.width() != headCount * keys.dim() || headWeights.width() != headCount) {
            throw new IllegalArgumentException("select: %d heads of %d, query width %d, weight width %d"
                    .formatted(headCount, keys.dim(), queries.width(), headWeights.width()));
        }
        if (!keys.equals(shape)) {
            shape = keys;
            scratchFloats = keys.scratchFloats();
        }
        batch = cacheBatch;
        layerOffset = offset;
        heads = headCount;
        scale = factor;
        q = queries;
        weights = headWeights;
        selection = result;
        groups = 0;
        rows = 0;
        products = 0;
        for (int s = 0; s < cacheBatch.count(); s++) {
            addGroups(s, cacheBatch, result);
        }
        parts = groups == 0 ? 1 : Math.max(1, (UNITS * work.length + groups - 1) / groups);
        if (parts > 1) {
            reserveParts(result.most());
        }
        return groups * parts;
    }

    /// Multiplications and additions of the operation.
    long products() {
        return products;
    }

    /// The second half of the work where rows were cut, to be run for [#merges] units.
    ThreadTeam.Task merge() {
        return merge;
    }

    int merges() {
        return parts > 1 ? rows : 0;
    }

    private void addGroups(int segment, CacheBatch b, Selection result) {
        int start = b.startPosition(segment);
        int count = b.rows(segment);
        int all = Math.clamp((long) result.most() - start, 0, count);
        int first = b.firstRow(segment);
        Objects.checkFromIndexSize(first, count, result.maxRows());
        Arrays.fill(result.counts(), first, first + all, Selection.ALL);
        for (int row = all; row < count; row += GROUP) {
            int n = Math.min(GROUP, count - row);
            reserveGroup(groups + 1, rows + n);
            segments[groups] = segment;
            firstRows[groups] = row;
            rowCounts[groups] = n;
            chosen[groups++] = rows;
            for (int i = 0; i < n; i++) {
                rowSegments[rows] = segment;
                rowNumbers[rows++] = first + row + i;
            }
            products += (long) n * (start + row + n) * Objects.requireNonNull(q).width();
        }
    }

    private void reserveGroup(int groupCount, int rowCount) {
        if (segments.length < groupCount) {
            int size = 2 * groupCount;
            segments = Arrays.copyOf(segments, size);
            firstRows = Arrays.copyOf(firstRows, size);
            rowCounts = Arrays.copyOf(rowCounts, size);
            chosen = Arrays.copyOf(chosen, size);
        }
        if (rowNumbers.length < rowCount) {
            rowSegments = Arrays.copyOf(rowSegments, 2 * rowCount);
            rowNumbers = Arrays.copyOf(rowNumbers, 2 * rowCount);
        }
    }

    private void reserveParts(int most) {
        if (floors.length() < rows) {
            floors = new AtomicLongArray(rowNumbers.length);
        }
        for (int i = 0; i < rows; i++) {
            floors.set(i, Long.MIN_VALUE);
        }
        int lists = Math.multiplyExact(rows, parts);
        if (foundCounts.length < lists) {
            foundCounts = new int[lists];
        }
        int room = Math.multiplyExact(lists, most);
        if (found.length < room) {
            found = new long[room];
        }
    }

    private CacheShape.Keys shape() {
        return Objects.requireNonNull(shape);
    }

    private CacheBatch batch() {
        return Objects.requireNonNull(batch);
    }

    private Selection selection() {
        return Objects.requireNonNull(selection);
    }

    @Override
    public void run(int unit, int thread) {
        int group = unit / parts;
        int part = unit % parts;
        Work w = work[thread];
        w.segment = segments[group];
        w.row = firstRows[group];
        w.rows = rowCounts[group];
        w.chosen = chosen[group];
        w.start = batch().startPosition(w.segment) + w.row;
        int pages = (w.start + w.rows + PAGE - 1) / PAGE;
        int perPart = Math.max(TILE, (pages + parts - 1) / parts);
        int from = Math.min(pages, part * perPart);
        int to = Math.min(pages, from + perPart);
        w.reserve(heads, scratchFloats, selection().most());
        weigh(w);
        for (int page = from; page < to; page += TILE) {
            tile(w, page, Math.min(TILE, to - page));
        }
        for (int i = 0; i < w.rows; i++) {
            end(w, i, part);
        }
    }

    private void weigh(Work w) {
        Rows from = Objects.requireNonNull(weights);
        for (int i = 0; i < w.rows; i++) {
            int row = from.at(batch().firstRow(w.segment) + w.row + i);
            for (int h = 0; h < heads; h++) {
                w.weights[i * heads + h] = from.values()[row + h] * scale;
            }
        }
    }

    /// All rows of the unit against some pages. Several rows go together while their heads are no more than one call takes.
    private void tile(Work w, int page, int pages) {
        Rows queries = Objects.requireNonNull(q);
        boolean adjacent = queries.stride() == queries.width();
        int together = adjacent ? Math.max(1, CacheShape.MOST_QUERIES / heads) : 1;
        for (int i = 0; i < w.rows; i += together) {
            int n = Math.min(together, w.rows - i);
            int first = queries.at(batch().firstRow(w.segment) + w.row + i);
            for (int h = 0; h < n * heads; h += CacheShape.MOST_QUERIES) {
                loops.scores(
                        shape(),
                        batch().pages(w.segment),
                        page,
                        pages,
                        layerOffset,
                        queries.values(),
                        first + h * shape().dim(),
                        Math.min(CacheShape.MOST_QUERIES, n * heads - h),
                        w.dots,
                        h * TILE_TOKENS,
                        TILE_TOKENS,
                        w.scratch);
            }
            for (int j = 0; j < n; j++) {
                int tokens = Math.min(pages * PAGE, w.start + i + j + 1 - page * PAGE);
                if (tokens > 0) {
                    loops.weigh(
                            w.dots,
                            j * heads * TILE_TOKENS,
                            TILE_TOKENS,
                            heads,
                            tokens,
                            w.weights,
                            (i + j) * heads,
                            w.scores,
                            0);
                    offer(w, i + j, page * PAGE, tokens);
                }
            }
        }
    }

    /// Keeps those tokens that are above the floor of their row.
    private void offer(Work w, int i, int position, int tokens) {
        if (parts > 1) {
            w.floors[i] = Math.max(w.floors[i], floors.get(w.chosen + i));
        }
        int most = selection().most();
        int done = 0;
        while (true) {
            done = w.take(i, position, done, tokens);
            if (done == tokens) {
                return;
            }
            w.floors[i] = w.keys.keep(w.candidates, i * w.room, w.counts[i], most);
            w.counts[i] = most;
            if (parts > 1) {
                // As good as the last of so many here: what is worse is not among the best of all parts.
                floors.accumulateAndGet(w.chosen + i, w.floors[i], Math::max);
            }
        }
    }

    private void end(Work w, int i, int part) {
        int most = selection().most();
        int count = w.counts[i];
        if (count > most) {
            w.keys.keep(w.candidates, i * w.room, count, most);
            count = most;
        }
        if (parts == 1) {
            write(w, rowNumbers[w.chosen + i], w.start + i + 1, w.candidates, i * w.room);
        } else {
            int list = (w.chosen + i) * parts + part;
            System.arraycopy(w.candidates, i * w.room, found, list * most, count);
            foundCounts[list] = count;
        }
    }

    /// Chooses among what the parts of a row have chosen.
    private void merge(int row, int thread) {
        Work w = work[thread];
        int most = selection().most();
        long floor = floors.get(row);
        int base = row * parts * most;
        int to = base;
        for (int part = 0; part < parts; part++) {
            int from = base + part * most;
            for (int i = from; i < from + foundCounts[row * parts + part]; i++) {
                long key = found[i];
                found[to] = key;
                to += key >= floor ? 1 : 0;
            }
        }
        if (to - base > most) {
            w.keys.reserve(to - base);
            w.keys.keep(found, base, to - base, most);
        }
        int segment = rowSegments[row];
        int position = batch().startPosition(segment) + rowNumbers[row] - batch().firstRow(segment);
        write(w, rowNumbers[row], position + 1, found, base);
    }

    /// Writes the positions of `most` keys in ascending order.
    private void write(Work w, int row, int length, long[] keys, int from) {
        Selection to = selection();
        int most = to.most();
        int words = (length + Long.SIZE - 1) / Long.SIZE;
        if (w.marks.length < words) {
            w.marks = new long[2 * words];
        }
        long[] marks = w.marks;
        for (int i = from; i < from + most; i++) {
            int position = TopKeys.position(keys[i]);
            marks[position / Long.SIZE] |= 1L << position;
        }
        int at = row * most;
        for (int word = 0; word < words; word++) {
            for (long bits = marks[word]; bits != 0; bits &= bits - 1) {
                to.positions()[at++] = word * Long.SIZE + Long.numberOfTrailingZeros(bits);
            }
            marks[word] = 0;
        }
        to.counts()[row] = most;
    }

    /// The unit that a thread is at, and its working memory.
    private static final class Work {
        int segment;
        int row; // of the segment
        int rows;
        int chosen; // number of the first row among all
        int start; // position of the first row
        int room; // for candidates of a row
        long[] candidates = new long[0];
        long[] marks = new long[0];
        float[] dots = new float[0];
        float[] weights = new float[0];
        float[] scratch = new float[0];
        final int[] counts = new int[GROUP];
        final long[] floors = new long[GROUP];
        final float[] scores = new float[TILE_TOKENS];
        final TopKeys keys = new TopKeys();

        void reserve(int heads, int scratchFloats, int most) {
            // The more there is, the fewer are the times that the best are looked for.
            room = most + Math.max(2 * most, TILE_TOKENS);
            if (candidates.length < GROUP * room) {
                candidates = new long[GROUP * room];
            }
            keys.reserve(room);
            int queries = Math.max(heads, CacheShape.MOST_QUERIES);
            if (dots.length < queries * TILE_TOKENS) {
                dots = new float[queries * TILE_TOKENS];
            }
            if (weights.length < GROUP * heads) {
                weights = new float[GROUP * heads];
            }
            if (scratch.length < scratchFloats) {
                scratch = new float[scratchFloats];
            }
            Arrays.fill(counts, 0);
            Arrays.fill(floors, Long.MIN_VALUE);
        }

        /// Takes what of `scores[from] …` is above the floor of row i; returns the first token that it has no room for.
        int take(int i, int position, int from, int tokens) {
            long floor = floors[i];
            // NaN, which is less than nothing, where there is no floor.
            float least = TopKeys.score(floor);
            int at = i * room + counts[i];
            int end = (i + 1) * room;
            int t = from;
            for (; t < tokens && at < end; t++) {
                float score = scores[t];
                if (!(score < least)) {
                    long key = TopKeys.key(score, position + t);
                    candidates[at] = key;
                    at += key > floor ? 1 : 0;
                }
            }
            counts[i] = at - i * room;
            return t;
        }
    }
}

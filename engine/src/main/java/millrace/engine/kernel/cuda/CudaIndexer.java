package millrace.engine.kernel.cuda;

import java.util.Locale;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kernel.TileFormat;

/// The indexer of sparse attention on the device: its keys with the bytes of the CPU (store_keys.cu), their scores
/// (index.cu), and the positions of the largest (select.cu).
///
/// Scores never stand in memory together. Positions are taken window by window, ascending: the scores of a window, for every
/// row, then the best of those and of what was kept before. How long a window is follows from the rows of the launch and
/// from the room for scores; since the choice is exact, nothing else does.
///
/// `rows` is what a launch has blocks for, as in [CudaStore], and `positions` how many a row may see at most: a recorded step
/// has windows for as many as there can be, of which those behind the longest row find nothing to do. On the device stands
/// which rows see all of their positions; for these nothing is computed.
final class CudaIndexer {
    private static final int THREADS = 128;
    private static final int WARP = 32;

    /// Threads of a block that chooses; fewer where they take turns.
    private static final int SELECT_THREADS = 512;
    private static final int SELECT_STANDIN_THREADS = 128;

    /// As select.cu has it, in words: digits, what was found, counts of warps.
    private static final int SELECT_SHARED = Integer.BYTES * (2048 + 2 + 64);

    /// As index.cu has it, in words of 4 bytes: a tile of heads, one of its operands, the dots of a warp.
    private static final int HEADS = 16;

    private static final int OPERAND_WORDS = 128;
    private static final int DOT_WORDS = 4 * HEADS * 36;

    /// Windows begin at multiples of it.
    private static final int WINDOW_STEP = 256;

    /// Positions that a block scores at a time.
    private static final int BLOCK_POSITIONS = 128;

    /// Blocks that are launched at most: eight for each multiprocessor of the largest device that we know.
    private static final int MOST_BLOCKS = 8 * 132;

    private static final int MOST_STANDIN_BLOCKS = 8;

    /// Scores of 16 million positions, which are one window for 64 rows of 262,144.
    private static final long SCORE_BYTES = 64L << 20;

    private static final int SHARE_OF_MEMORY = 64;

    private final Gpu gpu;
    private final boolean standin;
    private final Kernel[] store = new Kernel[TileFormat.values().length];
    private final Kernel[] scores = new Kernel[TileFormat.values().length];
    private final Kernel best;
    private final Kernel gather;
    private long scoreBytes;
    private long scoreAddress;

    CudaIndexer(Gpu gpu) {
        this(gpu, Math.min(SCORE_BYTES, gpu.memoryBytes() / SHARE_OF_MEMORY));
    }

    /// @param scoreBytes memory for scores, of which there is more where rows need it
    CudaIndexer(Gpu gpu, long scoreBytes) {
        this.gpu = gpu;
        this.scoreBytes = scoreBytes;
        standin = gpu.device().standin();
        for (TileFormat format : new TileFormat[] {TileFormat.F32, TileFormat.BF16, TileFormat.INT8}) {
            String name = format.name().toLowerCase(Locale.ROOT);
            store[format.ordinal()] = gpu.kernel("store_keys_" + name);
            scores[format.ordinal()] = gpu.kernel("index_scores_" + name);
        }
        best = gpu.kernel("select_best");
        gather = gpu.kernel("gather_in_place");
    }

    /// Room for the positions of at most so many rows, followed by the order of their scores. With the first comes that for
    /// scores.
    Selection selection(int maxRows, int most) {
        long least = (long) Float.BYTES * WINDOW_STEP * maxRows;
        if (scoreAddress == 0 || scoreBytes < least) {
            scoreBytes = Math.max(scoreBytes, least);
            scoreAddress = gpu.allocate(scoreBytes, "scores of index keys");
        }
        long bytes = Selection.bytes(maxRows, most) + Math.multiplyExact((long) Integer.BYTES * maxRows, most);
        return Selection.device(maxRows, most, gpu.allocate(bytes, "the positions that rows attend to"));
    }

    private static long orders(Selection selection) {
        return selection.countsAddress() + Selection.bytes(selection.maxRows(), selection.most());
    }

    /// Writes the rows' index keys.
    ///
    /// @param layerOffset bytes from the start of a page to the layer's block
    void store(CacheShape.Keys shape, CudaCacheBatch batch, int rows, long layerOffset, Rows keys) {
        if (rows == 0) {
            return;
        }
        CudaStore.require(keys, rows, shape.dim());
        gpu.launch(store[shape.format().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.segmentOf())
                .ptr(batch.pages())
                .i64(layerOffset)
                .i32(shape.dim())
                .i64(shape.scaleOffset())
                .ptr(keys.addressAt(0))
                .i32(keys.stride())
                .run(Math.ceilDiv(rows, THREADS / WARP), 1, 1, THREADS, 0);
    }

    /// Chooses the positions of each row, see [millrace.engine.kernel.Kernels#select].
    ///
    /// @param positions that a row of the launch sees at most
    /// @param q `[rows][heads · dim]`
    /// @param weights `[rows][heads]`
    void select(
            CacheShape.Keys shape,
            CudaCacheBatch batch,
            int rows,
            int positions,
            long layerOffset,
            int heads,
            float scale,
            Rows q,
            Rows weights,
            Selection selection) {
        if (rows == 0) {
            return;
        }
        CudaStore.require(q, rows, heads * shape.dim());
        CudaStore.require(weights, rows, heads);
        require(selection, rows);
        int window = window(rows, positions);
        for (int first = 0; first < positions; first += window) {
            if (positions > selection.most()) {
                score(shape, batch, rows, layerOffset, heads, scale, q, weights, selection.most(), first, window);
            }
            gpu.launch(best)
                    .ptr(batch.counts())
                    .ptr(batch.segments())
                    .ptr(batch.segmentOf())
                    .i32(selection.most())
                    .i32(first)
                    .i32(window)
                    .ptr(scoreAddress)
                    .ptr(selection.countsAddress())
                    .ptr(selection.positionsAddress())
                    .ptr(orders(selection))
                    .run(rows, 1, 1, standin ? SELECT_STANDIN_THREADS : SELECT_THREADS, SELECT_SHARED);
        }
    }

    /// Positions of a window: as many as there is room for.
    private int window(int rows, int positions) {
        long room = scoreBytes / Float.BYTES / rows / WINDOW_STEP * WINDOW_STEP;
        return (int) Math.min(room, (positions + WINDOW_STEP - 1L) / WINDOW_STEP * WINDOW_STEP);
    }

    private void score(
            CacheShape.Keys shape,
            CudaCacheBatch batch,
            int rows,
            long layerOffset,
            int heads,
            float scale,
            Rows q,
            Rows weights,
            int most,
            int first,
            int window) {
        int tiles = Math.ceilDiv(heads, HEADS);
        int operands = shape.format() == TileFormat.INT8 ? 2 : 3;
        int words = tiles * Math.ceilDiv(shape.dim(), 16) * operands * OPERAND_WORDS + DOT_WORDS + 3 * heads;
        int blocks = (standin ? MOST_STANDIN_BLOCKS : MOST_BLOCKS) / rows;
        int parts = Math.clamp(Math.ceilDiv(window, BLOCK_POSITIONS), 1, Math.max(1, blocks));
        gpu.launch(scores[shape.format().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.segmentOf())
                .ptr(batch.pages())
                .i64(layerOffset)
                .i32(heads)
                .i32(shape.dim())
                .f32(scale)
                .i64(shape.scaleOffset())
                .ptr(q.addressAt(0))
                .i32(q.stride())
                .ptr(weights.addressAt(0))
                .i32(weights.stride())
                .i32(most)
                .i32(first)
                .i32(window)
                .ptr(scoreAddress)
                .run(rows, parts, 1, THREADS, Float.BYTES * words);
    }

    /// Moves the choices of the given rows to the front.
    ///
    /// @param sources device address of `rows` ints, `sources[i] ≥ i`
    /// @param live device address of how many of the rows there are, 0 for all
    void gather(Selection selection, long sources, int rows, long live) {
        if (rows == 0) {
            return;
        }
        require(selection, rows);
        move(selection.countsAddress(), 1, sources, rows, live);
        move(selection.positionsAddress(), selection.most(), sources, rows, live);
    }

    private void move(long address, int width, long sources, int rows, long live) {
        gpu.launch(gather)
                .ptr(address)
                .ptr(sources)
                .i32(width)
                .i32(width)
                .i32(rows)
                .ptr(live)
                .run(Math.ceilDiv(width, THREADS), 1, 1, THREADS, 0);
    }

    static void require(Selection selection, int rows) {
        if (selection.countsAddress() == 0 || rows > selection.maxRows()) {
            throw new IllegalArgumentException("cuda: expected a selection of %d rows on the device, got one of %d at %x"
                    .formatted(rows, selection.maxRows(), selection.countsAddress()));
        }
    }
}

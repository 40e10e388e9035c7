package millrace.engine.kernel.cuda;

import java.util.Locale;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kernel.TileFormat;
import org.jspecify.annotations.Nullable;

/// Attention over the cache on the device, see attend.h.
///
/// Rows of few queries have their splits of 256 tokens formed by different blocks, into partial sums that a second kernel
/// joins; so one long sequence keeps the whole device busy. Of rows with many queries, and where there is no room for
/// partial sums, a block forms all splits and joins them itself. The bits are the same.
///
/// Blocks take their work from the batch as it is on the device, in turn until there is none: a recorded launch serves any
/// lengths. `rows` is what it is recorded for, as in [CudaStore].
final class CudaAttention {
    /// Positions of a split, as cache.h has it.
    static final int SPLIT = 256;

    /// Rows of a segment up to which its splits are formed by different blocks: with more there are tiles enough.
    static final int MOST_PARTIAL_ROWS = 16;

    /// Rows of a launch up to which queries are few: then tiles are small, and partial sums are always joined.
    private static final int MOST_SINGLE_ROWS = 64;

    private static final int THREADS = 128;
    private static final int MOST_COMBINE_THREADS = 512;

    /// As attend.h has them, in words of 4 bytes: of page addresses, from one query's scores to the next's, of the state of
    /// the softmax, and of a warp's operand.
    private static final int ADDRESS_WORDS = 32;

    /// What addresses of tokens take more than those of pages.
    private static final int TOKEN_ADDRESS_BYTES = Long.BYTES * SPLIT - Integer.BYTES * ADDRESS_WORDS;

    private static final int SCORE_PITCH = SPLIT + 16;
    private static final int STATE_WORDS = 64;
    private static final int OPERAND_WORDS = 128;
    private static final int LATENT_QUERIES = 16;
    private static final int COMBINE_WORDS = 3 * 128;

    /// Blocks that are launched at most: eight for each multiprocessor of the largest device that we know.
    private static final int MOST_BLOCKS = 8 * 132;

    /// The emulated device has no use for blocks that stand by.
    private static final int MOST_STANDIN_BLOCKS = 8;

    /// Partial sums of a million tokens for 32 heads of 128 dimensions take 68 MB.
    private static final long PARTIAL_BYTES = 256L << 20;

    private static final int SHARE_OF_MEMORY = 64;

    private final Gpu gpu;
    private final int mostBlocks;
    private final long partialBytes;
    private final long partials;
    private final Kernel[] grouped8 = new Kernel[TileFormat.values().length];
    private final Kernel[] grouped16 = new Kernel[TileFormat.values().length];
    private final Kernel[] latent = new Kernel[TileFormat.values().length];
    private final Kernel[] chosen = new Kernel[TileFormat.values().length];
    private final Kernel plain;
    private final Kernel chosenPlain;
    private final Kernel combine;

    CudaAttention(Gpu gpu) {
        this(gpu, Math.min(PARTIAL_BYTES, gpu.memoryBytes() / SHARE_OF_MEMORY));
    }

    /// @param partialBytes memory for partial sums
    CudaAttention(Gpu gpu, long partialBytes) {
        this.gpu = gpu;
        this.partialBytes = partialBytes;
        mostBlocks = gpu.device().standin() ? MOST_STANDIN_BLOCKS : MOST_BLOCKS;
        partials = gpu.allocate(Math.max(1, partialBytes), "partial sums of attention");
        for (TileFormat format : new TileFormat[] {TileFormat.F32, TileFormat.BF16, TileFormat.INT8, TileFormat.INT4}) {
            String name = format.name().toLowerCase(Locale.ROOT);
            grouped8[format.ordinal()] = gpu.kernel("attend_grouped_" + name + "_8");
            grouped16[format.ordinal()] = gpu.kernel("attend_grouped_" + name + "_16");
        }
        for (TileFormat format : new TileFormat[] {TileFormat.F32, TileFormat.BF16, TileFormat.INT8, TileFormat.FP8}) {
            String name = format.name().toLowerCase(Locale.ROOT);
            latent[format.ordinal()] = gpu.kernel("attend_latent_" + name);
            chosen[format.ordinal()] = gpu.kernel("attend_chosen_" + name);
        }
        plain = gpu.kernel("attend_latent_fp8_plain");
        chosenPlain = gpu.kernel("attend_chosen_fp8_plain");
        combine = gpu.kernel("attend_combine");
    }

    /// Refuses a cache whose attention takes more shared memory than a block has on this device.
    ///
    /// @param choosing whether attention is also over chosen positions
    /// @throws millrace.engine.BackendException `CUDA_SHARED_MEMORY`
    void require(CacheShape shape, boolean choosing) {
        switch (shape) {
            case CacheShape.Grouped grouped -> require(sharedBytes(grouped, 16), "heads of dimension " + grouped.headDim());
            case CacheShape.Latent latents -> require(sharedBytes(latents, choosing), "latents of rank " + latents.rank());
        }
    }

    private void require(int needed, String what) {
        if (needed > gpu.sharedBytes()) {
            throw CudaProbe.refused(
                    "CUDA_SHARED_MEMORY",
                    "%s: expected %d bytes of shared memory in a block, which attention over %s takes, got %d"
                            .formatted(gpu.name(), needed, what, gpu.sharedBytes()),
                    "take a device of compute capability 8.0, 9.x or 10.x by engine.cuda.device, or set engine.backend to native");
        }
    }

    /// Attention over keys and values; `q` and `out` are `[rows][heads · headDim]`.
    void attend(
            CacheShape.Grouped shape,
            CudaCacheBatch batch,
            int rows,
            long layerOffset,
            int heads,
            int kvHeads,
            float scale,
            Rows q,
            Rows out) {
        int dim = shape.headDim();
        CudaStore.require(q, rows, heads * dim);
        CudaStore.require(out, rows, heads * dim);
        if (heads % kvHeads != 0) {
            throw new IllegalArgumentException("cuda: expected heads in groups of equal size, got " + heads
                    + " heads for " + kvHeads + " KV heads");
        }
        int group = heads / kvHeads;
        int queries = group <= 8 && rows <= MOST_SINGLE_ROWS ? 8 : 16;
        int lanes = shape.valueLanes();
        int shared = sharedBytes(shape, queries);
        int records = records(heads, lanes);
        gpu.launch((queries == 8 ? grouped8 : grouped16)[shape.format().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.pages())
                .i64(layerOffset)
                .i64(shape.blockBytes())
                .i32(heads)
                .i32(kvHeads)
                .f32(scale)
                .i32(dim)
                .i32(lanes)
                .i64(shape.valueOffset())
                .i64(shape.keyScaleOffset())
                .i64(shape.valueScaleOffset())
                .f32(CudaStore.rotation(shape))
                .ptr(q.addressAt(0))
                .i32(q.stride())
                .ptr(out.addressAt(0))
                .i32(out.stride())
                .ptr(partials)
                .ptr(stats(records, heads, lanes))
                .i32(records)
                .run(kvHeads, blocks(batch, rows, group, queries, kvHeads), 1, THREADS, shared);
        if (joins(batch, rows)) {
            join(batch, rows, heads, dim, lanes, CudaStore.rotation(shape), records, null, 0, out);
        }
    }

    /// Attention over latents; `latentQ` and `out` are `[rows][heads · rank]`, `q` is `[rows][heads · headDim]` with the
    /// rotated part last in each head.
    void attend(
            CacheShape.Latent shape,
            CudaCacheBatch batch,
            int rows,
            long layerOffset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Rows out) {
        CudaStore.require(latentQ, rows, heads * shape.rank());
        CudaStore.require(out, rows, heads * shape.rank());
        CudaStore.require(q, rows, q.width());
        int lanes = shape.latentLanes();
        int records = records(heads, lanes);
        Launch launch = gpu.launch(shape.plain() ? plain : latent[shape.latentFormat().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.pages());
        addLatent(launch, shape, layerOffset, heads, scale, latentQ, q, out).ptr(partials).ptr(stats(records, heads, lanes));
        launch.i32(records);
        launch.run(1, blocks(batch, rows, heads, LATENT_QUERIES, 1), 1, THREADS, sharedBytes(shape, false));
        if (joins(batch, rows)) {
            join(batch, rows, heads, shape.rank(), lanes, 0, records, null, 0, out);
        }
    }

    /// The same over chosen positions, whose list is what splits are of: an item for each row, tile of heads and split.
    void attend(
            CacheShape.Latent shape,
            CudaCacheBatch batch,
            int rows,
            long layerOffset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Selection selection,
            Rows out) {
        if (rows == 0) {
            return;
        }
        CudaStore.require(latentQ, rows, heads * shape.rank());
        CudaStore.require(out, rows, heads * shape.rank());
        CudaStore.require(q, rows, q.width());
        CudaIndexer.require(selection, rows);
        int lanes = shape.latentLanes();
        int records = records(heads, lanes);
        int splits = Math.min(batch.mostSplits(), Math.ceilDiv(selection.most(), SPLIT));
        boolean partial = splits > 1 && rows <= MOST_SINGLE_ROWS && (long) rows * splits <= records;
        int partialSplits = partial ? splits : 0;
        long items = (long) rows * Math.ceilDiv(heads, LATENT_QUERIES) * Math.max(1, partialSplits);
        Launch launch = gpu.launch(shape.plain() ? chosenPlain : chosen[shape.latentFormat().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.segmentOf())
                .ptr(batch.pages())
                .ptr(selection.countsAddress())
                .ptr(selection.positionsAddress())
                .i32(selection.most());
        addLatent(launch, shape, layerOffset, heads, scale, latentQ, q, out).ptr(partials).ptr(stats(records, heads, lanes));
        launch.i32(partialSplits);
        launch.run(1, Math.clamp(items, 1, mostBlocks), 1, THREADS, sharedBytes(shape, true));
        if (partial) {
            join(batch, rows, heads, shape.rank(), lanes, 0, records, selection, partialSplits, out);
        }
    }

    /// Appends what attention over latents is told of them, be it all or those that were chosen.
    private static Launch addLatent(
            Launch launch,
            CacheShape.Latent shape,
            long layerOffset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Rows out) {
        return launch.i64(layerOffset)
                .i32(heads)
                .f32(scale)
                .i32(shape.rank())
                .i32(shape.ropeDim())
                .i32(shape.latentLanes())
                .i32(shape.ropeLanes())
                .i64(shape.ropeOffset())
                .i64(shape.scaleOffset())
                .i32(shape.scaleGroups())
                .ptr(latentQ.addressAt(0))
                .i32(latentQ.stride())
                .ptr(q.addressAt(0))
                .i32(q.stride())
                .i32(q.width() / heads)
                .ptr(out.addressAt(0))
                .i32(out.stride());
    }

    /// Whether a launch may leave partial sums.
    private static boolean joins(CudaCacheBatch batch, int rows) {
        return batch.mostSplits() > 1 && (rows <= MOST_SINGLE_ROWS || batch.wantsPartials());
    }

    private void join(
            CudaCacheBatch batch,
            int rows,
            int heads,
            int dim,
            int lanes,
            float rotation,
            int records,
            @Nullable Selection selection,
            int partialSplits,
            Rows out) {
        int threads = Math.min(MOST_COMBINE_THREADS, (dim + 31) / 32 * 32);
        int shared = Float.BYTES * (COMBINE_WORDS + (rotation == 0 ? 0 : dim));
        gpu.launch(combine)
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.segmentOf())
                .i32(heads)
                .i32(dim)
                .i32(lanes)
                .f32(rotation)
                .ptr(partials)
                .ptr(stats(records, heads, lanes))
                .i32(records)
                .ptr(selection == null ? 0 : selection.countsAddress())
                .i32(partialSplits)
                .ptr(out.addressAt(0))
                .i32(out.stride())
                .run(rows, heads, 1, threads, shared);
    }

    /// Blocks for each KV head: no more than there can be items.
    private int blocks(CudaCacheBatch batch, int rows, int group, int queries, int kvHeads) {
        long items = (long) rows * ((group + queries - 1) / queries) * batch.mostSplits();
        return Math.clamp(items, 1, Math.max(1, mostBlocks / kvHeads));
    }

    /// Records of partial sums, each for a row and a split, that there is room for: sums and two floats for each head.
    private int records(int heads, int lanes) {
        return (int) (partialBytes / ((long) heads * (lanes + 2) * Float.BYTES));
    }

    private long stats(int records, int heads, int lanes) {
        return partials + (long) records * heads * lanes * Float.BYTES;
    }

    private static int sharedBytes(CacheShape.Grouped shape, int queries) {
        int perStep = shape.format() == TileFormat.INT4 ? 32 : 16;
        int steps = (shape.headDim() + perStep - 1) / perStep * perStep / 16;
        return sharedBytes(steps, queries, 2 * shape.scaleGroups(), shape.valueLanes());
    }

    /// @param choosing whether a block has the address of each token
    private static int sharedBytes(CacheShape.Latent shape, boolean choosing) {
        int steps = (shape.latentLanes() + shape.ropeLanes()) / 16;
        return (choosing ? TOKEN_ADDRESS_BYTES : 0)
                + sharedBytes(steps, LATENT_QUERIES, shape.scaleGroups(), shape.latentLanes());
    }

    private static int sharedBytes(int steps, int queries, int scaleGroups, int lanes) {
        int operands = steps * (queries == 8 ? 2 : 3) * OPERAND_WORDS;
        int sums = queries * (SCORE_PITCH + lanes + 4);
        return Float.BYTES * (ADDRESS_WORDS + operands + sums + scaleGroups * SPLIT + STATE_WORDS);
    }
}

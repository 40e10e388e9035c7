package millrace.engine.kernel.cuda;

import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.TileFormat;

/// Appends keys and values to the pages of the cache, with the bytes of the CPU, see store_grouped.cu and store_latent.cu.
///
/// `rows` is what a launch has blocks for: the rows of the batch, or more where the launch is recorded. What the batch
/// says on the device counts.
final class CudaStore {
    private static final int GROUPED_THREADS = 64;
    private static final int LATENT_THREADS = 128;

    private final Gpu gpu;
    private final Kernel[] grouped = new Kernel[TileFormat.values().length];
    private final Kernel[] latent = new Kernel[TileFormat.values().length];
    private final Kernel plain;

    CudaStore(Gpu gpu) {
        this.gpu = gpu;
        grouped[TileFormat.F32.ordinal()] = gpu.kernel("store_grouped_f32");
        grouped[TileFormat.BF16.ordinal()] = gpu.kernel("store_grouped_bf16");
        grouped[TileFormat.INT8.ordinal()] = gpu.kernel("store_grouped_int8");
        grouped[TileFormat.INT4.ordinal()] = gpu.kernel("store_grouped_int4");
        latent[TileFormat.F32.ordinal()] = gpu.kernel("store_latent_f32");
        latent[TileFormat.BF16.ordinal()] = gpu.kernel("store_latent_bf16");
        latent[TileFormat.INT8.ordinal()] = gpu.kernel("store_latent_int8");
        latent[TileFormat.FP8.ordinal()] = gpu.kernel("store_latent_fp8");
        plain = gpu.kernel("store_latent_fp8_plain");
    }

    /// The factor of [millrace.engine.kernel.Hadamard#rotate], 0 where nothing is rotated.
    static float rotation(CacheShape.Grouped shape) {
        return shape.rotated() ? (float) (1 / Math.sqrt(shape.headDim())) : 0;
    }

    /// Writes the rows' keys and values, each `[rows][heads · headDim]`.
    ///
    /// @param layerOffset bytes from the start of a page to the layer's first block
    void store(
            CacheShape.Grouped shape,
            CudaCacheBatch batch,
            int rows,
            long layerOffset,
            int heads,
            Rows keys,
            Rows values) {
        int dim = shape.headDim();
        require(keys, rows, heads * dim);
        require(values, rows, heads * dim);
        int shared = shape.rotated() ? 2 * Float.BYTES * (dim + dim / CacheShape.Grouped.INT4_GROUP) : 0;
        gpu.launch(grouped[shape.format().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.segmentOf())
                .ptr(batch.pages())
                .i64(layerOffset)
                .i64(shape.blockBytes())
                .i32(dim)
                .i32(shape.valueLanes())
                .i64(shape.valueOffset())
                .i64(shape.keyScaleOffset())
                .i64(shape.valueScaleOffset())
                .f32(rotation(shape))
                .ptr(keys.addressAt(0))
                .i32(keys.stride())
                .ptr(values.addressAt(0))
                .i32(values.stride())
                .run(rows, heads, 1, GROUPED_THREADS, shared);
    }

    /// Writes the rows' latents and rotated keys.
    void store(CacheShape.Latent shape, CudaCacheBatch batch, int rows, long layerOffset, Rows latents, Rows keys) {
        require(latents, rows, shape.rank());
        require(keys, rows, shape.ropeDim());
        gpu.launch(shape.plain() ? plain : latent[shape.latentFormat().ordinal()])
                .ptr(batch.counts())
                .ptr(batch.segments())
                .ptr(batch.segmentOf())
                .ptr(batch.pages())
                .i64(layerOffset)
                .i32(shape.rank())
                .i32(shape.ropeDim())
                .i32(shape.latentLanes())
                .i32(shape.ropeLanes())
                .i64(shape.ropeOffset())
                .i64(shape.scaleOffset())
                .ptr(latents.addressAt(0))
                .i32(latents.stride())
                .ptr(keys.addressAt(0))
                .i32(keys.stride())
                .run(rows, 1, 1, LATENT_THREADS, 0);
    }

    static void require(Rows view, int rows, int width) {
        if (view.address() == 0 || rows < 1 || rows > view.capacity() || view.width() != width) {
            throw new IllegalArgumentException("cuda: expected %d rows of %d on the device, got %d of %d at %x"
                    .formatted(rows, width, view.capacity(), view.width(), view.address()));
        }
    }
}

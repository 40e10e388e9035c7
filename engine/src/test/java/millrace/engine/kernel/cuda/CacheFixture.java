package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.StepInputs;
import millrace.engine.kernel.TileFormat;

/// Pages of one shape on the host and on the device, at the same offsets, and sequences whose pages are shuffled.
///
/// A page has something before and behind the blocks of its layer, which must not change.
final class CacheFixture implements AutoCloseable {
    static final int LAYER_OFFSET = 192;

    final Gpu gpu;
    final CacheShape shape;
    final int kvHeads;
    final long pageBytes;
    final int pages;
    final MemorySegment host;
    final long device;
    final SplittableRandom random;
    private final Arena arena = Arena.ofConfined();
    private final int[] order;
    private int taken;

    CacheFixture(Gpu gpu, CacheShape shape, int kvHeads, int pages, long seed) {
        this.gpu = gpu;
        this.shape = shape;
        this.kvHeads = kvHeads;
        this.pages = pages;
        pageBytes = LAYER_OFFSET + kvHeads * shape.blockBytes() + 64;
        host = arena.allocate(pages * pageBytes, Memory.ALIGNMENT);
        device = gpu.allocate(pages * pageBytes, "pages of a test");
        random = new SplittableRandom(seed);
        order = new int[pages];
        for (int i = 0; i < pages; i++) {
            int j = random.nextInt(i + 1);
            order[i] = order[j];
            order[j] = i;
        }
    }

    static CacheShape.Grouped grouped(TileFormat format, int headDim) {
        return new CacheShape.Grouped(format, headDim);
    }

    static CacheShape.Latent latent(TileFormat format, TileFormat rope, int rank, int ropeDim) {
        return new CacheShape.Latent(format, rope, rank, ropeDim);
    }

    /// Every format, on sizes that fill no tile.
    static Stream<CacheShape> awkwardShapes() {
        return Stream.of(
                grouped(TileFormat.F32, 37),
                grouped(TileFormat.BF16, 37),
                grouped(TileFormat.INT8, 37),
                grouped(TileFormat.INT8, 66),
                grouped(TileFormat.INT4, 32),
                latent(TileFormat.F32, TileFormat.F32, 44, 6),
                latent(TileFormat.BF16, TileFormat.BF16, 44, 6),
                latent(TileFormat.INT8, TileFormat.BF16, 140, 6),
                latent(TileFormat.FP8, TileFormat.BF16, 300, 18),
                latent(TileFormat.FP8, TileFormat.FP8, 44, 6));
    }

    /// Every format, on the sizes of published models.
    static Stream<CacheShape> usualShapes() {
        return Stream.of(
                grouped(TileFormat.F32, 64),
                grouped(TileFormat.BF16, 128),
                grouped(TileFormat.INT8, 128),
                grouped(TileFormat.INT8, 256),
                grouped(TileFormat.INT4, 128),
                latent(TileFormat.BF16, TileFormat.BF16, 512, 64),
                latent(TileFormat.FP8, TileFormat.BF16, 512, 64),
                latent(TileFormat.FP8, TileFormat.FP8, 512, 64));
    }

    /// Pages for a new sequence: their numbers.
    int[] sequence(int positions) {
        int[] numbers = new int[(positions + CacheShape.TOKENS - 1) / CacheShape.TOKENS];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = order[taken++];
        }
        return numbers;
    }

    long[] onHost(int[] numbers) {
        return addresses(numbers, host.address());
    }

    long[] onDevice(int[] numbers) {
        return addresses(numbers, device);
    }

    private long[] addresses(int[] numbers, long base) {
        long[] addresses = new long[numbers.length];
        for (int i = 0; i < numbers.length; i++) {
            addresses[i] = base + numbers[i] * pageBytes;
        }
        return addresses;
    }

    /// Fills both sides with the same bytes, of which all numbers are finite in every format.
    void scribble() {
        for (long at = 0; at < host.byteSize(); at++) {
            host.set(ValueLayout.JAVA_BYTE, at, (byte) (random.nextInt() & 0x3F));
        }
        upload();
    }

    void upload() {
        gpu.upload(device, host);
    }

    /// The device's pages.
    MemorySegment download() {
        MemorySegment copy = arena.allocate(host.byteSize(), 8);
        gpu.download(copy, device);
        return copy;
    }

    /// A matrix with both sides, filled.
    Rows rows(float[] values, int rows, int width) {
        Rows view = Rows.device(values, gpu.allocate(4L * rows * width, "rows of a test"), rows, width);
        send(view);
        return view;
    }

    void send(Rows view) {
        MemorySegment copy = arena.allocate(4L * view.length(), 8);
        MemorySegment.copy(view.values(), 0, copy, ValueLayout.JAVA_FLOAT, 0, view.length());
        gpu.upload(view.address(), copy);
    }

    float[] fetch(Rows view) {
        MemorySegment copy = arena.allocate(4L * view.length(), 8);
        gpu.download(copy, view.address());
        return copy.toArray(ValueLayout.JAVA_FLOAT);
    }

    /// The device's side of a step.
    CudaInputs inputs(int maxRows, int maxPages) {
        return new CudaInputs(gpu, maxRows, maxPages, 1);
    }

    /// Adds rows of a sequence to a step.
    static void add(StepInputs inputs, long[] pages, int start, int rows) {
        for (int i = 0; i < rows; i++) {
            int ignored = inputs.addRow(0);
        }
        inputs.addSegment(pages, pages.length, rows, start, rows);
    }

    float[] gaussians(int n, double deviation) {
        float[] x = new float[n];
        for (int i = 0; i < n; i++) {
            x[i] = (float) (random.nextGaussian() * deviation);
        }
        return x;
    }

    int keyWidth() {
        return switch (shape) {
            case CacheShape.Grouped g -> g.headDim();
            case CacheShape.Latent l -> l.rank();
        };
    }

    int otherWidth() {
        return switch (shape) {
            case CacheShape.Grouped g -> g.headDim();
            case CacheShape.Latent l -> l.ropeDim();
        };
    }

    /// Stores rows: keys and values, or latents and rotated keys.
    void store(CudaStore store, CudaCacheBatch batch, int rows, Rows first, Rows second) {
        switch (shape) {
            case CacheShape.Grouped g -> store.store(g, batch, rows, LAYER_OFFSET, kvHeads, first, second);
            case CacheShape.Latent l -> store.store(l, batch, rows, LAYER_OFFSET, first, second);
        }
    }

    /// The same with the CPU's kernels and the host's pages.
    void storeOnHost(Kernels kernels, CacheBatch batch, Rows first, Rows second) {
        switch (shape) {
            case CacheShape.Grouped g -> kernels.store(g, batch, LAYER_OFFSET, kvHeads, first, second);
            case CacheShape.Latent l -> kernels.store(l, batch, LAYER_OFFSET, first, second);
        }
    }

    @Override
    public void close() {
        arena.close();
    }
}

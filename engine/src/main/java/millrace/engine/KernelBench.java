package millrace.engine;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kernel.StepInputs;
import millrace.engine.kv.KvLayout;

/// The kernels that read memory, each alone: products with one matrix in every weight format, and attention over a long
/// cache in every KV format, to all of it or to what an indexer chooses, on every backend.
///
/// A pass reads memory that the passes before it have pushed out of the caches: matrices and caches lie there in many
/// copies, which are read in turn. Which passes run, and in which order, is the caller's choice: so variants can take
/// turns, and a change of the machine's mood meets all of them.
public final class KernelBench implements AutoCloseable {
    /// Behind the name of a case whose operations run one by one.
    public static final String APART = "-apart";

    private static final int[] BATCHES = {1, 2, 4, 8, 16, 32};
    static final int MOST_ROWS = BATCHES[BATCHES.length - 1];
    /// A single row is soon done: it reads more at a time.
    private static final long PASS_BYTES_SINGLE = 128L << 20;

    private static final long PASS_BYTES = 32L << 20;

    /// A device is waited for once in a pass, some 20 µs, in which it reads a hundred megabytes: so a pass of one reads more.
    private static final long DEVICE_PASS_BYTES = 2L << 30;

    /// Of a device's memory, so that the caches of all formats find room.
    private static final int DEVICE_PASSES = 32;

    private static final int MOST_LAYERS = 64;
    private static final long ROTATION_BYTES = 512L << 20;

    private static final int HEADS = 32;
    private static final int KV_HEADS = 8;
    private static final int HEAD_DIM = 128;
    /// Latent attention as Kimi K2 has it.
    private static final int LATENT_HEADS = 64;

    private static final int RANK = 512;
    private static final int NOPE_DIM = 128;
    private static final int ROPE_DIM = 64;
    /// Sparse attention as GLM-5 has it.
    private static final int INDEX_HEADS = 32;

    private static final int INDEX_DIM = 128;
    private static final int CHOSEN = 2048;

    /// How large the operands are.
    ///
    /// @param rows of the matrix
    /// @param cols of the matrix
    /// @param tokens in the cache, a multiple of 16
    public record Size(int rows, int cols, int tokens) {
        public static final Size FULL = new Size(7168, 4096, 32_768);
        /// A device reads the other sizes in a few times what a launch takes: 264 MB in BF16.
        public static final Size DEVICE = new Size(18_432, 7168, 32_768);
        public static final Size QUICK = new Size(7168, 4096, 8_192);

        public Size {
            if (rows < 1 || cols < 1 || tokens < CacheShape.TOKENS || tokens % CacheShape.TOKENS != 0) {
                throw new IllegalArgumentException("kernel bench: " + rows + " x " + cols + ", " + tokens + " tokens");
            }
        }
    }

    /// One thing to measure.
    ///
    /// @param bench `gemv` (one row), `gemm`, `gated` (gate, up and activation), `addnorm` (a sum and its norm), `attention`,
    ///        `select` (the positions of the largest scores of index keys) or `sparse` (attention to as many); with [#APART]
    ///        behind it, by the operations that one is made of
    /// @param format of the weights, else of the cache
    /// @param shape of the operands
    /// @param batch rows of the product; else 1
    /// @param bytes that a pass reads at least: weights with their scales, or of the cache
    /// @param flops of a pass, two for a multiply-add
    /// @param tokens rows that a pass gets through; of the cache one for each layer that it reads
    public record Case(
            String bench, String backend, String format, String shape, int batch, long bytes, long flops, double tokens) {}

    interface Pass {
        void run();
    }

    private final Arena arena = Arena.ofShared();
    private final List<Backend> backends = new ArrayList<>();
    private final List<CacheMemory> memories = new ArrayList<>();
    private final List<Case> cases = new ArrayList<>();
    private final List<Pass> passes = new ArrayList<>();
    private final List<Selection> selections = new ArrayList<>();
    private final Map<Integer, Integer> copies = new HashMap<>(); // of a case's cache
    private final long rotationBytes;
    private final long devicePassBytes;

    /// @param names backends, as far as they can be had here
    /// @param threads 0 takes one per processor
    /// @param cuda the device of the backend `cuda`
    public KernelBench(List<String> names, int threads, Size size, CudaConfig cuda) {
        this(
                names,
                threads,
                size,
                cuda,
                Math.min(ROTATION_BYTES, FreeMemory.bytes() / 16),
                cuda.driver() == CudaConfig.Driver.SYSTEM ? DEVICE_PASS_BYTES : 0);
    }

    /// @param rotationBytes that the copies of an operand take together
    /// @param devicePassBytes that a pass of a backend with memory of its own reads at least; 0 for one operation
    KernelBench(
            List<String> names, int threads, Size size, CudaConfig cuda, long rotationBytes, long devicePassBytes) {
        this.rotationBytes = rotationBytes;
        this.devicePassBytes = devicePassBytes;
        try {
            names.forEach(name -> backends.add(Backend.open(name, threads, cuda)));
            products(size);
            for (KvFormat format : KvFormat.values()) {
                grouped(format, size.tokens());
                latent(format, size.tokens());
            }
        } catch (RuntimeException | Error e) {
            close();
            throw e;
        }
    }

    public List<Case> cases() {
        return List.copyOf(cases);
    }

    /// Runs one pass of a case and returns how long it took.
    public double seconds(int index) {
        long start = System.nanoTime();
        passes.get(index).run();
        return (System.nanoTime() - start) / 1e9;
    }

    /// The choices of the cases `select`, in their order.
    List<Selection> selections() {
        return List.copyOf(selections);
    }

    /// How many caches the passes of a case read in turn.
    int copies(int index) {
        return copies.getOrDefault(index, 1);
    }

    @Override
    public void close() {
        memories.forEach(CacheMemory::close);
        backends.forEach(Backend::close);
        arena.close();
    }

    void add(Case one, Pass pass) {
        cases.add(one);
        passes.add(pass);
    }

    // -------------------------------------------------------------------------------------------------- products

    private void products(Size size) {
        Map<WeightFormat, List<Matrix>> matrices = new EnumMap<>(WeightFormat.class);
        try (Arena temporary = Arena.ofShared()) {
            MemorySegment values = normal(temporary, size.rows(), size.cols());
            Matrix.Source source = Matrix.Source.rowMajor(DType.BF16, values, size.rows(), size.cols());
            for (WeightFormat format : WeightFormat.values()) {
                matrices.put(format, copies(backends.getFirst().kernels().pack(source, format, arena)));
            }
        }
        for (Backend backend : backends) {
            Kernels kernels = backend.kernels();
            matrices.values().forEach(copies -> copies.forEach(kernels::adopt));
            Rows x = random(kernels, MOST_ROWS, size.cols());
            Rows y = kernels.hostRows(MOST_ROWS, size.rows());
            for (int batch : BATCHES) {
                matrices.forEach((format, copies) -> product(backend, format, copies, x, y, batch));
            }
            new FusionBench(this, backend, x, y).add(matrices);
        }
    }

    private void product(Backend backend, WeightFormat format, List<Matrix> copies, Rows x, Rows y, int batch) {
        Matrix first = copies.getFirst();
        long bytes = first.data().byteSize();
        int perPass = backend.kernels().memoryBytes() > 0
                ? operations(backend.kernels(), bytes, Integer.MAX_VALUE)
                : Math.clamp(Math.ceilDiv(batch == 1 ? PASS_BYTES_SINGLE : PASS_BYTES, bytes), 1, copies.size());
        var list = new Projections(1);
        var next = new int[1];
        passes.add(() -> {
            for (int i = 0; i < perPass; i++) {
                Matrix matrix = copies.get(next[0]++ % copies.size());
                backend.kernels().project(list.clear().add(y, matrix, null, x, batch));
            }
            backend.kernels().fetch(y, 1);
        });
        long flops = 2L * first.rows() * first.cols() * batch * perPass;
        cases.add(new Case(
                batch == 1 ? "gemv" : "gemm",
                backend.name(),
                format.id(),
                first.rows() + " x " + first.cols(),
                batch,
                bytes * perPass,
                flops,
                (double) batch * perPass));
    }

    /// Operations of a pass on a device.
    ///
    /// @param bytes that one reads
    int operations(Kernels kernels, long bytes, int most) {
        return Math.clamp(Math.ceilDiv(Math.min(devicePassBytes, kernels.memoryBytes() / DEVICE_PASSES), bytes), 1, most);
    }

    /// The matrix and as many copies as the caches cannot hold.
    private List<Matrix> copies(Matrix matrix) {
        List<Matrix> all = new ArrayList<>(List.of(matrix));
        long bytes = matrix.data().byteSize();
        while (all.size() * bytes < rotationBytes) {
            MemorySegment data = Memory.allocateDense(arena, bytes, "the weights");
            data.copyFrom(matrix.data());
            all.add(over(data, matrix));
        }
        return all;
    }

    private static Matrix over(MemorySegment data, Matrix matrix) {
        if (matrix.format() != WeightFormat.PACKED) {
            return Matrix.of(matrix.format(), matrix.rows(), matrix.cols(), data);
        }
        int panels = matrix.panels();
        long[] offsets = new long[panels + 1];
        boolean[] raw = new boolean[panels];
        for (int p = 0; p < panels; p++) {
            offsets[p] = matrix.panelOffset(p);
            raw[p] = matrix.rawPanel(p);
        }
        offsets[panels] = data.byteSize();
        return Matrix.of(WeightFormat.PACKED, matrix.rows(), matrix.cols(), data, offsets, raw);
    }

    /// Weights as trained ones nearly are: normally distributed, of variance 1 / cols.
    private static MemorySegment normal(Arena arena, int rows, int cols) {
        MemorySegment values = Memory.allocate(arena, 2L * rows * cols, "the weights");
        double deviation = 1 / Math.sqrt(cols);
        IntStream.range(0, rows).parallel().forEach(row -> {
            var random = new SplittableRandom(row);
            for (long i = (long) row * cols; i < (row + 1L) * cols; i++) {
                int bits = Float.floatToRawIntBits((float) (random.nextGaussian() * deviation));
                values.setAtIndex(ValueLayout.JAVA_SHORT, i, (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16));
            }
        });
        return values;
    }

    static Rows random(Kernels kernels, int rows, int width) {
        Rows all = kernels.hostRows(rows, width);
        fill(kernels, all, rows, new SplittableRandom(7));
        return all;
    }

    private static void fill(Kernels kernels, Rows all, int rows, SplittableRandom random) {
        for (int i = 0; i < rows * all.width(); i++) {
            all.values()[i] = (float) random.nextGaussian();
        }
        kernels.send(all, rows);
    }

    // -------------------------------------------------------------------------------------------------- attention

    private void grouped(KvFormat format, int tokens) {
        KvLayout layout;
        try {
            layout = KvLayout.grouped(format, 1, KV_HEADS, HEAD_DIM);
        } catch (IllegalArgumentException e) {
            return; // not a format of this kind of cache
        }
        if (!(layout.shape() instanceof CacheShape.Grouped shape)) {
            return;
        }
        float scale = (float) (1 / Math.sqrt(HEAD_DIM));
        long flops = 4L * HEADS * HEAD_DIM * tokens; // of a layer
        String name = "grouped, " + HEADS + " heads on " + KV_HEADS + " of " + HEAD_DIM + ", " + tokens + " tokens";
        Map<String, List<long[]>> caches = new HashMap<>();
        for (Backend backend : backends) {
            Kernels kernels = backend.kernels();
            KvLayout layers = layers(kernels, layout, tokens);
            List<long[]> pages = caches.computeIfAbsent(kernels.device().name(), device -> {
                Rows keys = random(kernels, CacheShape.TOKENS, KV_HEADS * HEAD_DIM);
                return caches(kernels, layers.pageBytes(), tokens, 1, batch -> kernels.store(shape, batch, 0, KV_HEADS, keys, keys));
            });
            Rows q = random(kernels, 1, HEADS * HEAD_DIM);
            Rows out = kernels.hostRows(1, HEADS * HEAD_DIM);
            Case one = new Case("attention", backend.name(), format.id(), name, 1, bytes(layout, tokens), flops, 1);
            add(backend, one, layers.layers(), tokens, pages, batch -> {
                for (int layer = 0; layer < layers.layers(); layer++) {
                    kernels.attend(shape, batch, layers.blockOffset(layer, 0), HEADS, KV_HEADS, scale, q, out);
                }
                kernels.fetch(out, 1);
            });
        }
    }

    /// Attention to all, and where index keys can be had in the format, their choice and attention to it.
    private void latent(KvFormat format, int tokens) {
        KvLayout layout;
        try {
            layout = KvLayout.latent(format, 1, RANK, ROPE_DIM);
        } catch (IllegalArgumentException e) {
            return; // not a format of this kind of cache
        }
        if (!(layout.shape() instanceof CacheShape.Latent shape)) {
            return;
        }
        float scale = (float) (1 / Math.sqrt(NOPE_DIM + ROPE_DIM));
        long flops = 2L * LATENT_HEADS * (2 * RANK + ROPE_DIM); // of a layer, for a position
        String name = "latent, " + LATENT_HEADS + " heads, " + RANK + " + " + ROPE_DIM + ", " + tokens + " tokens";
        Map<String, List<long[]>> caches = new HashMap<>();
        Map<String, List<long[]>> keyCaches = new HashMap<>();
        for (Backend backend : backends) {
            Kernels kernels = backend.kernels();
            KvLayout layers = layers(kernels, layout, tokens);
            List<long[]> pages = caches.computeIfAbsent(kernels.device().name(), device -> {
                Rows latents = random(kernels, CacheShape.TOKENS, RANK);
                Rows ropes = random(kernels, CacheShape.TOKENS, ROPE_DIM);
                return caches(kernels, layers.pageBytes(), tokens, 1, batch -> kernels.store(shape, batch, 0, latents, ropes));
            });
            Rows latentQ = random(kernels, 1, LATENT_HEADS * RANK);
            Rows q = random(kernels, 1, LATENT_HEADS * (NOPE_DIM + ROPE_DIM));
            Rows out = kernels.hostRows(1, LATENT_HEADS * RANK);
            Case one = new Case("attention", backend.name(), format.id(), name, 1, bytes(layout, tokens), flops * tokens, 1);
            add(backend, one, layers.layers(), tokens, pages, batch -> {
                for (int layer = 0; layer < layers.layers(); layer++) {
                    kernels.attend(shape, batch, layers.blockOffset(layer, 0), LATENT_HEADS, scale, latentQ, q, out);
                }
                kernels.fetch(out, 1);
            });
            if (format.indexFormat() == format) {
                int chosen = Math.min(CHOSEN, tokens / 2);
                CacheShape.Keys index = Objects.requireNonNull(layout.withIndex(format, 1, INDEX_DIM).index());
                Selection selection = select(backend, index, chosen, tokens, keyCaches);
                Case sparse = new Case("sparse", backend.name(), format.id(), chosen + " of " + name, 1,
                        chosen * layout.bytesPerToken(), flops * chosen, 1);
                add(backend, sparse, layers.layers(), tokens, pages, batch -> {
                    for (int layer = 0; layer < layers.layers(); layer++) {
                        long offset = layers.blockOffset(layer, 0);
                        kernels.attend(shape, batch, offset, LATENT_HEADS, scale, latentQ, q, selection, out);
                    }
                    kernels.fetch(out, 1);
                });
            }
        }
    }

    /// Adds the choice of positions, and makes it. Index keys lie in pages of their own, since beside latents those of all
    /// copies might stay in the caches of the processor; and no two are alike, since a choice among equal scores is another one.
    private Selection select(
            Backend backend, CacheShape.Keys index, int chosen, int tokens, Map<String, List<long[]>> caches) {
        Kernels kernels = backend.kernels();
        long block = index.blockBytes();
        long bytes = (long) tokens / CacheShape.TOKENS * block;
        int layers = layers(kernels, bytes);
        List<long[]> pages = caches.computeIfAbsent(kernels.device().name(), device -> {
            var random = new SplittableRandom(7);
            Rows keys = kernels.hostRows(CacheShape.TOKENS, INDEX_DIM);
            return caches(kernels, layers * block, tokens, tokens / CacheShape.TOKENS, batch -> {
                fill(kernels, keys, CacheShape.TOKENS, random);
                for (int layer = 0; layer < layers; layer++) {
                    kernels.store(index, batch, layer * block, keys);
                }
            });
        });
        Rows q = random(kernels, 1, INDEX_HEADS * INDEX_DIM);
        Rows weights = random(kernels, 1, INDEX_HEADS);
        Selection selection = kernels.selection(1, chosen);
        float scale = (float) (1 / Math.sqrt(INDEX_HEADS * INDEX_DIM));
        String name = chosen + " of " + tokens + " index keys, " + INDEX_HEADS + " heads of " + INDEX_DIM;
        Case one = new Case("select", backend.name(), index.format().name().toLowerCase(Locale.ROOT), name, 1, bytes,
                2L * INDEX_HEADS * INDEX_DIM * tokens, 1);
        add(backend, one, layers, tokens, pages, batch -> {
            for (int layer = 0; layer < layers; layer++) {
                kernels.select(index, batch, layer * block, INDEX_HEADS, scale, q, weights, selection);
            }
            kernels.fetch(weights, 1);
        });
        passes.getLast().run();
        selections.add(selection);
        return selection;
    }

    /// Of one layer of this layout.
    private static long bytes(KvLayout layout, int tokens) {
        return (long) tokens / CacheShape.TOKENS * layout.pageBytes();
    }

    /// The layout of one layer, with as many as a pass reads.
    private KvLayout layers(Kernels kernels, KvLayout one, int tokens) {
        return new KvLayout(one.format(), layers(kernels, bytes(one, tokens)), one.heads(), one.shape());
    }

    private int layers(Kernels kernels, long bytes) {
        return kernels.memoryBytes() > 0 ? operations(kernels, bytes, MOST_LAYERS) : 1;
    }

    private interface Operation {
        void on(CacheBatch batch);
    }

    /// Adds a case of one token on the last position.
    ///
    /// @param one a layer of it
    private void add(Backend backend, Case one, int layers, int tokens, List<long[]> caches, Operation operation) {
        Kernels kernels = backend.kernels();
        List<StepInputs> steps = caches.stream().map(pages -> {
            StepInputs step = kernels.inputs(1, pages.length, ROPE_DIM);
            step.addRow(0);
            step.addSegment(pages, pages.length, 1, tokens - 1, 1);
            return step;
        }).toList();
        copies.put(cases.size(), steps.size());
        var next = new int[1];
        passes.add(() -> {
            StepInputs step = steps.get(next[0]++ % steps.size());
            kernels.send(step);
            operation.on(step.batch());
        });
        cases.add(new Case(
                one.bench(), one.backend(), one.format(), one.shape(), 1, layers * one.bytes(), layers * one.flops(), layers));
    }

    /// Addresses of the pages of as many caches as those of the hardware cannot hold.
    ///
    /// @param page bytes of one
    /// @param distinct pages that are stored, each by a call; those behind them repeat these
    private List<long[]> caches(Kernels kernels, long page, int tokens, int distinct, Operation store) {
        int pages = tokens / CacheShape.TOKENS;
        int count = (int) Math.max(1, Math.ceilDiv(rotationBytes, pages * page));
        CacheMemory memory = kernels.cache();
        memories.add(memory);
        long first = memory.allocate(count * pages * page);
        StepInputs step = kernels.inputs(CacheShape.TOKENS, 1, ROPE_DIM);
        try (Arena temporary = Arena.ofShared()) {
            MemorySegment one = temporary.allocate(page);
            for (int p = 0; p < distinct; p++) {
                step.clear();
                for (int i = 0; i < CacheShape.TOKENS; i++) {
                    step.addRow(0);
                }
                step.addSegment(new long[] {first + p * page}, 1, CacheShape.TOKENS, 0, 0);
                kernels.send(step);
                store.on(step.batch());
                memory.read(first + p * page, one);
                for (long i = p + distinct; i < (long) count * pages; i += distinct) {
                    memory.write(first + i * page, one);
                }
            }
        }
        return IntStream.range(0, count)
                .mapToObj(c -> IntStream.range(0, pages)
                        .mapToLong(p -> first + ((long) c * pages + p) * page)
                        .toArray())
                .toList();
    }
}

package millrace.engine.kernel.cuda;

import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.IntConsumer;
import millrace.engine.CudaConfig;
import millrace.engine.Device;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Experts;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.RouterSpec;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kernel.StepInputs;
import millrace.engine.kernel.WeightCopy;
import millrace.engine.kernel.cpu.ThreadTeam;
import org.jspecify.annotations.Nullable;

/// The operations on a CUDA device, in the profile `cuda-mma/v1`.
///
/// Weights, activations and KV pages lie in the device's memory; an operation is one launch or a few, queued on one stream,
/// and nothing is waited for before results are fetched. A step that may be recorded runs once as it is, so that all that
/// its operations need on the device is there; the next one of its bucket is captured; from then on it is one call. Then
/// launches are made for the bucket's rows, and read on the device how many rows there are.
///
/// Between the operations of a step nothing is allocated on the device or pinned, and its results do not depend on whether
/// it was recorded.
public final class CudaKernels implements Kernels {
    /// Names the orders of summation of this backend.
    public static final String PROFILE = "cuda-mma/v1";

    /// Rows that every matrix has room for.
    private static final int LEAST_ROWS = StepInputs.MOST_BUCKET;

    private final Gpu gpu;
    private final ThreadTeam team;
    private final CudaWeights weights;
    private final CudaTensors tensors;
    private final CudaEmbedding embedding;
    private final CudaProjections projections;
    private final CudaElementwise elementwise;
    private final CudaRouting routing;
    private final CudaStore store;
    private final CudaAttention attention;
    private final CudaIndexer indexer;
    private final CudaResults results;
    private final CudaTags tags;
    private final Map<StepInputs, CudaInputs> inputs = new IdentityHashMap<>();
    private final Map<float[], HostSide> hostSides = new IdentityHashMap<>();
    private @Nullable CudaInputs sent;

    /// Rows that launches are made for while a step is recorded, else 0.
    private int bucket;

    /// Whether copies from pinned memory may be under way.
    private boolean copying;

    private CudaKernels(Gpu gpu, int threads) {
        this.gpu = gpu;
        weights = new CudaWeights(gpu, this::forEach);
        tensors = new CudaTensors(weights::upload, this::forEach);
        embedding = new CudaEmbedding(gpu, tensors);
        projections = new CudaProjections(gpu, tensors);
        elementwise = new CudaElementwise(gpu);
        routing = new CudaRouting(gpu);
        store = new CudaStore(gpu);
        attention = new CudaAttention(gpu);
        indexer = new CudaIndexer(gpu);
        results = new CudaResults(gpu);
        tags = new CudaTags(gpu);
        // Last: where a device has no room for the others, no threads are left behind.
        team = new ThreadTeam(threads);
    }

    /// Opens a device.
    ///
    /// @param threads threads of the host, which pack weights
    /// @throws millrace.engine.BackendException as [Gpu#open]
    public static CudaKernels open(CudaConfig config, int threads) {
        Gpu gpu = Gpu.open(config);
        try {
            return new CudaKernels(gpu, threads);
        } catch (RuntimeException | Error e) {
            gpu.close();
            throw e;
        }
    }

    /// The device, for the start-up story.
    public String describe() {
        return gpu.device().describe() + ", kernels of " + gpu.imageName();
    }

    /// The device.
    Gpu gpu() {
        return gpu;
    }

    @Override
    public String profile() {
        return PROFILE;
    }

    @Override
    public Device device() {
        CudaDevice device = gpu.device();
        return new Device(
                device.name(),
                device.major() + "." + device.minor(),
                CudaDevice.version(device.driverVersion()),
                gpu.imageDigest(),
                device.standin());
    }

    @Override
    public long memoryBytes() {
        return gpu.memoryBytes();
    }

    @Override
    public long memoryLeft() {
        return gpu.memoryLeft();
    }

    // ------------------------------------------------------------------------------------------------ where things lie

    @Override
    public void require(CacheShape shape, boolean choosing) {
        attention.require(shape, choosing);
    }

    @Override
    public Rows rows(int capacity, int width) {
        int room = Math.max(LEAST_ROWS, capacity);
        long bytes = Math.multiplyExact((long) Float.BYTES * room, width);
        return Rows.device(new float[0], gpu.allocate(bytes, "activations"), room, width);
    }

    @Override
    public Rows hostRows(int capacity, int width) {
        int room = Math.max(LEAST_ROWS, capacity);
        float[] values = new float[Math.multiplyExact(room, width)];
        HostSide side = new HostSide(gpu, team, values, width);
        hostSides.put(values, side);
        return Rows.device(values, side.address(), room, width);
    }

    private HostSide side(Rows rows) {
        HostSide side = hostSides.get(rows.values());
        if (side == null) {
            throw new IllegalArgumentException("cuda: expected rows with a side on the heap, got others");
        }
        return side;
    }

    @Override
    public void send(Rows rows, int count) {
        awaitCopies();
        side(rows).send(count * rows.stride());
        copying = true;
    }

    @Override
    public void fetch(Rows rows, int count) {
        HostSide side = side(rows);
        side.queueFetch(count * rows.stride());
        gpu.synchronize();
        copying = false;
        side.take(count * rows.stride());
    }

    /// Pinned memory is written again only when nothing is copied from it any more.
    private void awaitCopies() {
        if (copying) {
            gpu.synchronize();
            copying = false;
        }
    }

    @Override
    public StepInputs inputs(int maxRows, int maxPages, int rotaryDim) {
        CudaInputs created = new CudaInputs(gpu, maxRows, maxPages, rotaryDim);
        inputs.put(created.inputs(), created);
        return created.inputs();
    }

    @Override
    public void send(StepInputs step) {
        gpu.own();
        awaitCopies();
        CudaInputs known = inputs.get(step);
        if (known == null) {
            throw new IllegalArgumentException("cuda: expected inputs of this backend, got others");
        }
        known.send();
        copying = true;
        sent = known;
    }

    @Override
    public int firstForeign(StepInputs step) {
        if (sent().inputs() != step) {
            throw new IllegalArgumentException("cuda: expected the inputs that were sent last, got others");
        }
        int foreign = sent().firstForeign(tags);
        copying = false;
        return foreign;
    }

    private CudaInputs sent() {
        return Objects.requireNonNull(sent, "cuda: inputs are sent before operations read them");
    }

    @Override
    public boolean records() {
        return true;
    }

    @Override
    public void run(int bucketOfStep, Runnable operations) {
        CudaInputs step = sent();
        if (bucketOfStep == 0 || bucketOfStep > step.inputs().maxRows()) {
            operations.run();
            return;
        }
        bucket = bucketOfStep;
        try {
            step.recordings().run(bucketOfStep, operations);
        } finally {
            bucket = 0;
        }
    }

    /// Rows that a launch is made for.
    ///
    /// @param rows what the operation was called with
    private int rows(int rows) {
        return bucket == 0 ? rows : bucket;
    }

    /// Where the device finds how many rows there are, 0 if as many as the launch is made for.
    private long live() {
        return bucket == 0 ? 0 : sent().rows();
    }

    private long livePairs(Routing of) {
        return bucket == 0 ? 0 : of.pairsAddress();
    }

    @Override
    public void adopt(Matrix matrix) {
        tensors.adopt(matrix);
    }

    @Override
    public void adopt(float[] values) {
        tensors.adopt(values);
    }

    @Override
    public void adopt(Experts experts) {
        tensors.adopt(experts);
    }

    @Override
    public List<WeightCopy> copies() {
        return weights.copies();
    }

    @Override
    public CacheMemory cache() {
        return new CudaCache(gpu, tags);
    }

    // ---------------------------------------------------------------------------------------------------------- weights

    @Override
    public void forEach(int count, IntConsumer task) {
        team.run((i, thread) -> task.accept(i), count);
    }

    // ------------------------------------------------------------------------------------------------------- operations

    @Override
    public void embed(Rows y, Matrix table, int[] tokens, int rows) {
        embedding.embed(y, table, sent().address(tokens), rows(rows), live());
    }

    @Override
    public void project(Projections list) {
        projections.run(list, bucket, live());
    }

    @Override
    public void rmsNorm(Rows y, Rows x, float[] weight, float eps, int rows, int heads) {
        elementwise.rmsNorm(y, x, tensors.address(weight), weight.length, eps, rows(rows), heads, live());
    }

    @Override
    public void addNorm(Rows y, Rows x, Rows added, float[] weight, float eps, int rows) {
        elementwise.addNorm(y, x, added, tensors.address(weight), eps, rows(rows), live());
    }

    @Override
    public void rotate(Rows x, int rows, int heads, int headDim, int from, Rows table, boolean interleaved) {
        elementwise.rotate(x, rows(rows), heads, headDim, from, table, interleaved, live());
    }

    @Override
    public void swiglu(Rows gate, Rows up, int rows) {
        elementwise.swiglu(gate, up, rows(rows), live());
    }

    @Override
    public void projectGated(Projections pair, Rows gate, Rows up, int rows) {
        if (!projections.runGated(pair, bucket, live())) {
            Kernels.super.projectGated(pair, gate, up, rows);
        }
    }

    @Override
    public void add(Rows x, Rows y, int rows) {
        elementwise.add(x, y, rows(rows), live());
    }

    /// Rows of a batch that a launch is made for.
    private int rows(CacheBatch batch) {
        int last = batch.count() - 1;
        return rows(last < 0 ? 0 : batch.firstRow(last) + batch.rows(last));
    }

    @Override
    public void store(CacheShape.Grouped shape, CacheBatch batch, long layerOffset, int heads, Rows keys, Rows values) {
        int rows = rows(batch);
        if (rows > 0) {
            store.store(shape, sent().of(batch), rows, layerOffset, heads, keys, values);
        }
    }

    @Override
    public void store(CacheShape.Latent shape, CacheBatch batch, long layerOffset, Rows latents, Rows ropeKeys) {
        int rows = rows(batch);
        if (rows > 0) {
            store.store(shape, sent().of(batch), rows, layerOffset, latents, ropeKeys);
        }
    }

    @Override
    public void attend(
            CacheShape.Grouped shape, CacheBatch batch, long layerOffset, int heads, int kvHeads, float scale, Rows q, Rows out) {
        int rows = rows(batch);
        if (rows > 0) {
            attention.attend(shape, sent().of(batch), rows, layerOffset, heads, kvHeads, scale, q, out);
        }
    }

    @Override
    public void attend(
            CacheShape.Latent shape, CacheBatch batch, long layerOffset, int heads, float scale, Rows latentQ, Rows q, Rows out) {
        int rows = rows(batch);
        if (rows > 0) {
            attention.attend(shape, sent().of(batch), rows, layerOffset, heads, scale, latentQ, q, out);
        }
    }

    @Override
    public void layerNorm(Rows y, Rows x, float[] weight, float[] bias, float eps, int rows) {
        elementwise.layerNorm(y, x, tensors.address(weight), tensors.address(bias), eps, rows(rows), live());
    }

    @Override
    public void store(CacheShape.Keys shape, CacheBatch batch, long layerOffset, Rows keys) {
        indexer.store(shape, sent().of(batch), rows(batch), layerOffset, keys);
    }

    @Override
    public Selection selection(int maxRows, int most) {
        return indexer.selection(Math.max(LEAST_ROWS, maxRows), most);
    }

    @Override
    public void select(
            CacheShape.Keys shape, CacheBatch batch, long layerOffset, int heads, float scale, Rows q, Rows weights,
            Selection selection) {
        CudaCacheBatch known = sent().of(batch);
        int positions = bucket == 0 ? known.longest() : known.mostPositions();
        indexer.select(shape, known, rows(batch), positions, layerOffset, heads, scale, q, weights, selection);
    }

    @Override
    public void gather(Selection selection, int[] sources, int rows) {
        indexer.gather(selection, sent().address(sources), rows(rows), live());
    }

    @Override
    public void attend(
            CacheShape.Latent shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Selection selection,
            Rows out) {
        attention.attend(shape, sent().of(batch), rows(batch), layerOffset, heads, scale, latentQ, q, selection, out);
    }

    @Override
    public void gather(Rows y, Rows x, int[] sources, int rows) {
        elementwise.gather(y, x, sent().address(sources), rows(rows), live());
    }

    @Override
    public RowFacts facts(int maxRows, int width) {
        return results.facts(Math.max(LEAST_ROWS, maxRows), width);
    }

    @Override
    public void inspect(RowFacts facts, Rows x, int rows) {
        results.inspect(facts, x, rows(rows), live());
    }

    @Override
    public void fetch(RowFacts facts, int rows) {
        results.fetch(facts, rows);
        copying = false;
    }

    @Override
    public void fetch(Rows first, Rows second, @Nullable RowFacts facts, int rows) {
        results.fetch(first, side(first), side(second), facts, rows);
        copying = false;
    }

    @Override
    public void bring(Rows rows, RowFacts facts, int row) {
        results.bring(facts, side(rows), row);
    }

    // --------------------------------------------------------------------------------------------- mixtures of experts

    @Override
    public Routing routing(int maxRows, RouterSpec spec) {
        return routing.allocate(Math.max(LEAST_ROWS, maxRows), spec);
    }

    @Override
    public void route(Routing choice, Rows logits, float[] bias, int rows) {
        routing.route(choice, logits, tensors.address(bias), rows(rows), live());
    }

    @Override
    public void gather(Rows y, Rows x, Routing choice, int rows) {
        elementwise.gather(y, x, choice.sourcesAddress(), rows(rows) * choice.spec().perRow(), livePairs(choice));
    }

    @Override
    public void swiglu(Rows gate, Rows up, Routing choice, int rows) {
        elementwise.swiglu(gate, up, rows(rows) * choice.spec().perRow(), livePairs(choice));
    }

    @Override
    public void projectGated(
            Projections pairs, Rows gate, Rows up, Rows expertGate, Rows expertUp, Routing choice, int rows) {
        if (!projections.runGated(pairs, bucket, live())) {
            Kernels.super.projectGated(pairs, gate, up, expertGate, expertUp, choice, rows);
        }
    }

    @Override
    public void combine(Rows y, Rows x, Routing choice, @Nullable Rows shared, int rows) {
        int perRow = choice.spec().perRow();
        elementwise.combine(
                y, x, choice.slotsAddress(), choice.weightsAddress(), perRow, shared, rows(rows), live());
    }

    @Override
    public void close() {
        team.close();
        gpu.close();
    }
}

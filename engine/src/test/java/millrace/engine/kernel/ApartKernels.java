package millrace.engine.kernel;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.IntConsumer;
import java.util.stream.IntStream;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.jspecify.annotations.Nullable;

/// The operations of a processor behind the seam of a device: activations, weights and pages lie where nobody but these
/// kernels finds them, and the operations of a step of single tokens are recorded once and then only repeated.
///
/// What was not adopted, sent or fetched is not there, and fails or reads as NaN.
public final class ApartKernels implements Kernels {
    private final CpuKernels host = new CpuKernels(new ScalarLoops(), 1);
    private final NavigableMap<Long, float[]> memory = new TreeMap<>();
    private final List<Rows> withSides = new ArrayList<>();
    private final Map<Object, Object> adopted = new IdentityHashMap<>();
    private final List<Object> adoptions = new ArrayList<>();
    private final Map<Routing, Routing> routings = new IdentityHashMap<>();
    private final Map<Selection, Selection> selections = new IdentityHashMap<>();
    private final Map<Integer, List<Operation>> recorded = new HashMap<>();
    private final Arena arena = Arena.ofShared();
    private @Nullable List<Operation> recording;
    private @Nullable Sent sent;
    private long next = 1L << 40;
    private int repeated;

    /// @param rows of the step
    private interface Operation {
        void run(int rows);
    }

    /// What the device has of a step's inputs.
    private record Sent(
            StepInputs of, int[] tokens, int[] wantedRows, CacheBatch batch, CacheBatch wantedBatch, int rows) {}

    /// Buckets that were recorded.
    public Set<Integer> recorded() {
        return recorded.keySet();
    }

    /// Steps that ran without their operations being called.
    public int repeated() {
        return repeated;
    }

    /// What was adopted, in order.
    public List<Object> adoptions() {
        return adoptions;
    }

    // ------------------------------------------------------------------------------------------------ where things lie

    @Override
    public Rows rows(int capacity, int width) {
        return allocate(new float[0], capacity, width);
    }

    @Override
    public Rows hostRows(int capacity, int width) {
        Rows rows = allocate(new float[capacity * width], capacity, width);
        withSides.add(rows);
        return rows;
    }

    private Rows allocate(float[] side, int capacity, int width) {
        long address = next;
        memory.put(address, new float[capacity * width]);
        next += 256L + 4L * capacity * width;
        return Rows.device(side, address, capacity, width);
    }

    private Rows there(Rows rows) {
        float[] values = Objects.requireNonNull(memory.get(rows.address()), "activations of other kernels");
        return new Rows(values, rows.offset(), rows.stride(), rows.width());
    }

    @Override
    public void send(Rows rows, int count) {
        requireOutside();
        System.arraycopy(rows.values(), 0, there(rows).values(), 0, count * rows.stride());
        Arrays.fill(rows.values(), Float.NaN);
    }

    @Override
    public void fetch(Rows rows, int count) {
        requireOutside();
        System.arraycopy(there(rows).values(), 0, rows.values(), 0, count * rows.stride());
    }

    @Override
    public void send(StepInputs inputs) {
        send(inputs.angles(), inputs.rows());
        sent = new Sent(
                inputs,
                inputs.tokens().clone(),
                inputs.wantedRows().clone(),
                copy(inputs.batch()),
                copy(inputs.wantedBatch()),
                inputs.rows());
        Arrays.fill(inputs.tokens(), -1);
        Arrays.fill(inputs.wantedRows(), -1);
    }

    private static CacheBatch copy(CacheBatch batch) {
        var copy = new CacheBatch(batch.capacity());
        for (int s = 0; s < batch.count(); s++) {
            int count = (batch.startPosition(s) + batch.rows(s) + CacheShape.TOKENS - 1) / CacheShape.TOKENS;
            long[] pages = Arrays.stream(batch.pages(s), 0, count).map(ApartCache::inProcess).toArray();
            copy.add(pages, count, batch.firstRow(s), batch.rows(s), batch.startPosition(s));
        }
        return copy;
    }

    private Sent sent() {
        return Objects.requireNonNull(sent, "inputs that were not sent");
    }

    private int[] there(int[] indices) {
        if (indices == sent().of.tokens()) {
            return sent().tokens;
        }
        if (indices == sent().of.wantedRows()) {
            return sent().wantedRows;
        }
        throw new IllegalArgumentException("indices that are not those of the inputs");
    }

    private CacheBatch there(CacheBatch batch) {
        if (batch == sent().of.batch()) {
            return sent().batch;
        }
        if (batch == sent().of.wantedBatch()) {
            return sent().wantedBatch;
        }
        throw new IllegalArgumentException("a batch that is not one of the inputs'");
    }

    @Override
    public boolean records() {
        return true;
    }

    @Override
    public void run(int bucket, Runnable operations) {
        withSides.forEach(rows -> Arrays.fill(rows.values(), Float.NaN));
        if (bucket == 0) {
            operations.run();
            return;
        }
        List<Operation> list = recorded.get(bucket);
        if (list == null) {
            list = new ArrayList<>();
            recording = list;
            operations.run();
            recording = null;
            recorded.put(bucket, list);
        } else {
            repeated++;
        }
        list.forEach(operation -> operation.run(sent().rows));
    }

    private void run(int rows, Operation operation) {
        if (recording == null) {
            operation.run(rows);
        } else if (rows == sent().rows) {
            recording.add(operation);
        } else {
            throw new IllegalArgumentException("recorded: expected " + sent().rows + " rows, got " + rows);
        }
    }

    private void requireOutside() {
        if (recording != null) {
            throw new IllegalStateException("sent or fetched among the operations of a step");
        }
    }

    @Override
    public void adopt(Matrix matrix) {
        requireOutside();
        adoptions.add(matrix);
        Matrix before = (Matrix) adopted.get(matrix);
        if (before != null) {
            before.data().copyFrom(matrix.data());
            if (matrix.format() == WeightFormat.PACKED) {
                before.restorePanels(matrix.panelOffsets(), matrix.rawPanels());
            }
            return;
        }
        var data = Memory.allocate(arena, matrix.data().byteSize(), "a test").copyFrom(matrix.data());
        adopted.put(matrix, matrix.format() == WeightFormat.PACKED
                ? Matrix.of(matrix.format(), matrix.rows(), matrix.cols(), data, matrix.panelOffsets(), matrix.rawPanels())
                : Matrix.of(matrix.format(), matrix.rows(), matrix.cols(), data));
    }

    @Override
    public void adopt(float[] values) {
        requireOutside();
        adoptions.add(values);
        float[] before = (float[]) adopted.putIfAbsent(values, values.clone());
        if (before != null) {
            System.arraycopy(values, 0, before, 0, values.length);
        }
    }

    @Override
    public void adopt(Experts experts) {
        requireOutside();
        adoptions.add(experts);
        adopted.put(experts, new Experts(
                IntStream.range(0, experts.count()).mapToObj(e -> there(experts.get(e))).toList()));
    }

    private Matrix there(Matrix matrix) {
        return (Matrix) Objects.requireNonNull(adopted.get(matrix), "a matrix that was not adopted");
    }

    private float[] there(float[] values) {
        return (float[]) Objects.requireNonNull(adopted.get(values), "an array that was not adopted");
    }

    private float @Nullable [] thereIf(float @Nullable [] values) {
        return values == null ? null : there(values);
    }

    @Override
    public CacheMemory cache() {
        return new ApartCache(CacheMemory.Algorithm.W64, this::forEach);
    }

    // ------------------------------------------------------------------------------------------------------- operations

    @Override
    public void forEach(int count, IntConsumer task) {
        host.forEach(count, task);
    }

    @Override
    public void embed(Rows y, Matrix table, int[] tokens, int rows) {
        run(rows, n -> host.embed(there(y), there(table), there(tokens), n));
    }

    @Override
    public void project(Projections list) {
        for (int i = 0; i < list.count(); i++) {
            Rows x = list.input(i);
            Rows y = list.output(i);
            Experts experts = list.experts(i);
            if (experts != null) {
                Routing routing = list.routing(i);
                var there = (Experts) Objects.requireNonNull(adopted.get(experts), "experts that were not adopted");
                run(list.rows(i) / routing.spec().perRow(), n -> host.project(new Projections(there.count())
                        .addExperts(there(y), there, there(x), there(routing), n)));
            } else {
                Matrix w = there(list.matrix(i));
                float[] bias = thereIf(list.bias(i));
                int xRow = list.inputRow(i);
                int yRow = list.outputRow(i);
                run(list.rows(i), n -> host.project(new Projections(1).add(there(y), yRow, w, bias, there(x), xRow, n)));
            }
        }
    }

    @Override
    public void rmsNorm(Rows y, Rows x, float[] weight, float eps, int rows, int heads) {
        run(rows, n -> host.rmsNorm(there(y), there(x), there(weight), eps, n, heads));
    }

    @Override
    public void rotate(Rows x, int rows, int heads, int headDim, int from, Rows table, boolean interleaved) {
        run(rows, n -> host.rotate(there(x), n, heads, headDim, from, there(table), interleaved));
    }

    @Override
    public void swiglu(Rows gate, Rows up, int rows) {
        run(rows, n -> host.swiglu(there(gate), there(up), n));
    }

    @Override
    public void add(Rows x, Rows y, int rows) {
        run(rows, n -> host.add(there(x), there(y), n));
    }

    @Override
    public void store(CacheShape.Grouped shape, CacheBatch batch, long offset, int heads, Rows keys, Rows values) {
        run(sent().rows, n -> host.store(shape, there(batch), offset, heads, there(keys), there(values)));
    }

    @Override
    public void store(CacheShape.Latent shape, CacheBatch batch, long offset, Rows latents, Rows ropeKeys) {
        run(sent().rows, n -> host.store(shape, there(batch), offset, there(latents), there(ropeKeys)));
    }

    @Override
    public void attend(
            CacheShape.Grouped shape, CacheBatch batch, long offset, int heads, int kvHeads, float scale, Rows q, Rows out) {
        run(sent().rows, n ->
                host.attend(shape, there(batch), offset, heads, kvHeads, scale, there(q), there(out)));
    }

    @Override
    public void attend(
            CacheShape.Latent shape, CacheBatch batch, long offset, int heads, float scale, Rows latentQ, Rows q, Rows out) {
        run(sent().rows, n ->
                host.attend(shape, there(batch), offset, heads, scale, there(latentQ), there(q), there(out)));
    }

    @Override
    public void layerNorm(Rows y, Rows x, float[] weight, float[] bias, float eps, int rows) {
        run(rows, n -> host.layerNorm(there(y), there(x), there(weight), there(bias), eps, n));
    }

    @Override
    public void store(CacheShape.Keys shape, CacheBatch batch, long offset, Rows keys) {
        run(sent().rows, n -> host.store(shape, there(batch), offset, there(keys)));
    }

    @Override
    public Selection selection(int maxRows, int most) {
        Selection selection = Selection.device(maxRows, most, next = (next + 255) / 256 * 256);
        next += Selection.bytes(maxRows, most);
        selections.put(selection, Selection.onHeap(maxRows, most));
        return selection;
    }

    private Selection there(Selection selection) {
        return Objects.requireNonNull(selections.get(selection), "a selection of other kernels");
    }

    @Override
    public void select(
            CacheShape.Keys shape,
            CacheBatch batch,
            long offset,
            int heads,
            float scale,
            Rows q,
            Rows weights,
            Selection selection) {
        run(sent().rows, n ->
                host.select(shape, there(batch), offset, heads, scale, there(q), there(weights), there(selection)));
    }

    @Override
    public void gather(Selection selection, int[] sources, int rows) {
        run(rows, n -> host.gather(there(selection), there(sources), n));
    }

    @Override
    public void attend(
            CacheShape.Latent shape,
            CacheBatch batch,
            long offset,
            int heads,
            float scale,
            Rows latentQ,
            Rows q,
            Selection selection,
            Rows out) {
        run(sent().rows, n -> host.attend(
                shape, there(batch), offset, heads, scale, there(latentQ), there(q), there(selection), there(out)));
    }

    @Override
    public void gather(Rows y, Rows x, int[] sources, int rows) {
        run(rows, n -> host.gather(there(y), there(x), there(sources), n));
    }

    @Override
    public Routing routing(int maxRows, RouterSpec spec) {
        Routing routing = Routing.device(maxRows, spec, next = (next + 255) / 256 * 256);
        next += Routing.bytes(maxRows, spec);
        routings.put(routing, Routing.onHeap(maxRows, spec));
        return routing;
    }

    private Routing there(Routing routing) {
        return Objects.requireNonNull(routings.get(routing), "a routing of other kernels");
    }

    @Override
    public void route(Routing routing, Rows logits, float[] bias, int rows) {
        run(rows, n -> host.route(there(routing), there(logits), there(bias), n));
    }

    @Override
    public void gather(Rows y, Rows x, Routing routing, int rows) {
        run(rows, n -> host.gather(there(y), there(x), there(routing), n));
    }

    @Override
    public void swiglu(Rows gate, Rows up, Routing routing, int rows) {
        run(rows, n -> host.swiglu(there(gate), there(up), there(routing), n));
    }

    @Override
    public void combine(Rows y, Rows x, Routing routing, @Nullable Rows shared, int rows) {
        run(rows, n -> host.combine(there(y), there(x), there(routing), shared == null ? null : there(shared), n));
    }

    @Override
    public void close() {
        host.close();
        arena.close();
    }
}

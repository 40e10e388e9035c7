package millrace.engine.kernel.cpu;

import java.util.function.IntConsumer;
import millrace.engine.Products;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Routing;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kernel.cpu.RowTask.Operation;
import org.jspecify.annotations.Nullable;

/// The operations on a CPU: cut into units that do not depend on one another, and shared by a team of threads.
///
/// Work is split over outputs only (rows of weights, queries, rows of a step), never over what is summed: so threads
/// change the time and not the bits. An operation too small to be worth a second thread runs on the caller's.
public final class CpuKernels implements Kernels {
    // About 10 µs of work: less than that is not worth waking a thread, which takes as long.
    private static final long ALONE_MULTIPLY_ADDS = 300_000;
    private static final long ALONE_VALUES = 20_000;

    private final Loops loops;
    private final ThreadTeam team;
    private final CpuProjections projections;
    private final ProductCheck products = new ProductCheck();
    private final CpuAttention attention;
    private final CpuSelection selection;
    private final RowTask rowTask;
    private @Nullable ExpertRouter router;

    public CpuKernels(Loops loops, int threads) {
        this.loops = loops;
        team = new ThreadTeam(threads);
        projections = new CpuProjections(loops, threads);
        attention = new CpuAttention(loops, products, threads);
        selection = new CpuSelection(loops, threads);
        rowTask = new RowTask(loops, threads);
    }

    @Override
    public void forEach(int count, IntConsumer task) {
        team.run((i, thread) -> task.accept(i), count);
    }

    @Override
    public Products products(int every) {
        products.every(every);
        return products;
    }

    @Override
    public void embed(Rows y, Matrix table, int[] tokens, int rows) {
        requireRows(y, rows);
        rowTask.operation = Operation.EMBED;
        rowTask.y = y;
        rowTask.table = table;
        rowTask.indices = tokens;
        runRows(rows, y.width());
    }

    @Override
    public void project(Projections list) {
        int units = projections.prepare(list);
        if (CpuProjections.work(list) < ALONE_MULTIPLY_ADDS) {
            team.runAlone(projections, units);
        } else {
            team.run(projections, units);
        }
    }

    @Override
    public void rmsNorm(Rows y, Rows x, float[] weight, float eps, int rows, int heads) {
        requireRows(y, rows);
        requireRows(x, rows);
        if (x.width() != heads * weight.length || y.width() != x.width()) {
            throw new IllegalArgumentException("rmsNorm: %d heads of %d in rows of %d and %d"
                    .formatted(heads, weight.length, x.width(), y.width()));
        }
        rowTask.operation = Operation.NORM;
        rowTask.y = y;
        rowTask.x = x;
        rowTask.weight = weight;
        rowTask.eps = eps;
        rowTask.heads = heads;
        runRows(rows, x.width());
    }

    @Override
    public void rotate(Rows x, int rows, int heads, int headDim, int from, Rows table, boolean interleaved) {
        requireRows(x, rows);
        requireRows(table, rows);
        if (x.width() != heads * headDim || from + table.width() > headDim) {
            throw new IllegalArgumentException("rotate: %d heads of %d in rows of %d, %d dimensions from %d"
                    .formatted(heads, headDim, x.width(), table.width(), from));
        }
        rowTask.operation = Operation.ROTATE;
        rowTask.x = x;
        rowTask.other = table;
        rowTask.heads = heads;
        rowTask.headDim = headDim;
        rowTask.from = from;
        rowTask.interleaved = interleaved;
        runRows(rows, heads * table.width());
    }

    @Override
    public void swiglu(Rows gate, Rows up, int rows) {
        requireRows(gate, rows);
        requireRows(up, rows);
        rowTask.operation = Operation.SWIGLU;
        rowTask.x = gate;
        rowTask.other = up;
        runRows(rows, 4L * gate.width());
    }

    @Override
    public void add(Rows x, Rows y, int rows) {
        requireRows(x, rows);
        requireRows(y, rows);
        rowTask.operation = Operation.ADD;
        rowTask.x = x;
        rowTask.y = y;
        runRows(rows, x.width());
    }

    @Override
    public void store(CacheShape.Grouped shape, CacheBatch batch, long layerOffset, int heads, Rows keys, Rows values) {
        rowTask.operation = Operation.STORE_GROUPED;
        rowTask.heads = heads;
        rowTask.reserveRotations(shape.rotated() ? shape.headDim() : 0);
        storeRows(shape, batch, layerOffset, keys, values);
    }

    @Override
    public void store(CacheShape.Latent shape, CacheBatch batch, long layerOffset, Rows latents, Rows ropeKeys) {
        rowTask.operation = Operation.STORE_LATENT;
        storeRows(shape, batch, layerOffset, latents, ropeKeys);
    }

    private void storeRows(@Nullable CacheShape shape, CacheBatch batch, long layerOffset, Rows first, Rows second) {
        rowTask.shape = shape;
        rowTask.batch = batch;
        rowTask.layerOffset = layerOffset;
        rowTask.x = first;
        rowTask.other = second;
        int rows = batch.count() == 0 ? 0 : batch.firstRow(batch.count() - 1) + batch.rows(batch.count() - 1);
        requireRows(first, rows);
        requireRows(second, rows);
        runRows(rows, 4L * (first.width() + second.width()));
    }

    @Override
    public void attend(
            CacheShape.Grouped shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            int kvHeads,
            float scale,
            Rows q,
            Rows out) {
        int units = attention.prepare(shape, batch, layerOffset, heads, kvHeads, scale, q, out);
        run(attention, units, attention.products());
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
            Rows out) {
        int units = attention.prepare(shape, batch, layerOffset, heads, scale, latentQ, q, out);
        run(attention, units, attention.products());
    }

    private void run(ThreadTeam.Task task, int units, long multiplyAdds) {
        if (multiplyAdds < ALONE_MULTIPLY_ADDS) {
            team.runAlone(task, units);
        } else {
            team.run(task, units);
        }
    }

    @Override
    public void layerNorm(Rows y, Rows x, float[] weight, float[] bias, float eps, int rows) {
        requireRows(y, rows);
        requireRows(x, rows);
        if (x.width() != weight.length || y.width() != weight.length || bias.length != weight.length) {
            throw new IllegalArgumentException("layerNorm: %d weights, %d biases, rows of %d and %d"
                    .formatted(weight.length, bias.length, x.width(), y.width()));
        }
        rowTask.operation = Operation.LAYER_NORM;
        rowTask.y = y;
        rowTask.x = x;
        rowTask.weight = weight;
        rowTask.bias = bias;
        rowTask.eps = eps;
        runRows(rows, 2L * x.width());
    }

    @Override
    public void store(CacheShape.Keys shape, CacheBatch batch, long layerOffset, Rows keys) {
        rowTask.operation = Operation.STORE_KEYS;
        rowTask.indexShape = shape;
        storeRows(null, batch, layerOffset, keys, keys);
    }

    @Override
    public void select(
            CacheShape.Keys shape,
            CacheBatch batch,
            long layerOffset,
            int heads,
            float scale,
            Rows q,
            Rows weights,
            Selection into) {
        int units = selection.prepare(shape, batch, layerOffset, heads, scale, q, weights, into);
        run(selection, units, selection.products());
        run(selection.merge(), selection.merges(), selection.products());
    }

    @Override
    public void gather(Selection selection, int[] sources, int rows) {
        int most = selection.most();
        int[] counts = selection.counts();
        for (int i = 0; i < rows; i++) {
            int source = sources[i];
            counts[i] = counts[source];
            if (counts[i] != Selection.ALL && source != i) {
                System.arraycopy(selection.positions(), source * most, selection.positions(), i * most, counts[i]);
            }
        }
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
        int units = attention.prepare(shape, batch, layerOffset, heads, scale, latentQ, q, selection, out);
        run(attention.gathering(), attention.gathering().units(), attention.products());
        run(attention, units, attention.products());
    }

    @Override
    public void gather(Rows y, Rows x, int[] sources, int rows) {
        requireRows(y, rows);
        if (x.width() != y.width()) {
            throw new IllegalArgumentException("gather: rows of " + x.width() + " into rows of " + y.width());
        }
        for (int i = 0; i < rows; i++) {
            System.arraycopy(x.values(), x.at(sources[i]), y.values(), y.at(i), y.width());
        }
    }

    @Override
    public void route(Routing routing, Rows logits, float[] bias, int rows) {
        requireRows(logits, rows);
        if (router == null || !router.spec().equals(routing.spec())) {
            router = new ExpertRouter(routing.spec());
        }
        router.route(routing, logits, bias, rows);
    }

    @Override
    public void gather(Rows y, Rows x, Routing routing, int rows) {
        gather(y, x, routing.sources(), rows * routing.spec().perRow());
    }

    @Override
    public void swiglu(Rows gate, Rows up, Routing routing, int rows) {
        swiglu(gate, up, rows * routing.spec().perRow());
    }

    @Override
    public void combine(Rows y, Rows x, Routing routing, @Nullable Rows shared, int rows) {
        requireRows(y, rows);
        int perRow = routing.spec().perRow();
        rowTask.operation = Operation.COMBINE;
        rowTask.y = y;
        rowTask.x = x;
        rowTask.indices = routing.slots();
        rowTask.weight = routing.weights();
        rowTask.heads = perRow;
        rowTask.other = shared;
        runRows(rows, (long) perRow * y.width());
    }

    private void runRows(int rows, long valuesPerRow) {
        if (rows * valuesPerRow < ALONE_VALUES) {
            team.runAlone(rowTask, rows);
        } else {
            team.run(rowTask, rows);
        }
    }

    private static void requireRows(Rows view, int rows) {
        if (rows < 0 || rows > view.capacity()) {
            throw new IllegalArgumentException("rows: expected at most " + view.capacity() + ", got " + rows);
        }
    }

    @Override
    public void close() {
        loops.close();
        team.close();
        attention.close();
    }
}

package millrace.engine.model;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.IntStream;
import millrace.engine.KvFormat;
import millrace.engine.batch.StepPlan;
import millrace.engine.batch.StepPlan.Logits;
import millrace.engine.kernel.Backend;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import millrace.engine.weights.ModelFiles;

/// A transformer over a checkpoint, without a scheduler: tests decide what a step holds.
public final class ModelRun implements AutoCloseable {
    public static final int MAX_ROWS = 128;

    private final Backend backend;
    private final ModelConfig config;
    private final ModelWeights weights;
    private final PagePool pool;
    private final Transformer transformer;
    private final StepPlan plan = new StepPlan(32, MAX_ROWS);

    private ModelRun(Path dir, Backend backend, KvFormat format, WeightTargets targets, boolean drafting) {
        this.backend = backend;
        try (ModelFiles files = ModelFiles.open(dir)) {
            config = drafting ? ModelConfig.read(files).withDraft(files) : ModelConfig.read(files);
            TensorExpectation.check(config, files);
            weights = ModelWeights.load(config, files, backend.kernels(), targets);
        }
        pool = new PagePool(Transformer.kvLayout(config, format), 64 << 20, backend.kernels().cache());
        transformer = new Transformer(config, weights, pool, backend.kernels(), MAX_ROWS, MAX_ROWS);
    }

    public static ModelRun open(Path dir, String backendName, int threads, KvFormat format) {
        return open(dir, Backend.open(backendName, threads), format);
    }

    /// The same on a backend, which is closed with the run.
    public static ModelRun open(Path dir, Backend backend, KvFormat format) {
        return new ModelRun(dir, backend, format, WeightTargets.STORED, false);
    }

    /// The same with the model's draft layer.
    public static ModelRun openDrafting(Path dir, Backend backend, KvFormat format) {
        return new ModelRun(dir, backend, format, WeightTargets.STORED, true);
    }

    /// The same with weights in another format, by its id.
    public static ModelRun openDrafting(Path dir, Backend backend, KvFormat format, String weights) {
        return new ModelRun(dir, backend, format, WeightTargets.of(weights), true);
    }

    /// Without the draft layer, with weights in another format.
    public static ModelRun open(Path dir, String backendName, int threads, KvFormat format, String weights) {
        return new ModelRun(dir, Backend.open(backendName, threads), format, WeightTargets.of(weights), false);
    }

    /// Bytes of the matrices by format.
    public Map<String, Long> bytesByFormat() {
        return weights.bytesByFormat();
    }

    public ModelConfig config() {
        return config;
    }

    public PagePool pool() {
        return pool;
    }

    public Transformer transformer() {
        return transformer;
    }

    public StepPlan plan() {
        return plan;
    }

    public PageTable newTable() {
        return new PageTable(pool);
    }

    /// Logits of the last position, the prompt cut into chunks.
    public float[] last(int[] ids, int chunk) {
        PageTable table = newTable();
        try {
            for (int from = 0; from < ids.length; from += chunk) {
                int n = Math.min(chunk, ids.length - from);
                step(table, ids, from, n, from + n == ids.length ? Logits.LAST : Logits.NONE);
            }
            return row(0);
        } finally {
            table.release();
        }
    }

    /// Logits of every position, the prompt cut into chunks.
    public float[][] all(int[] ids, int chunk) {
        PageTable table = newTable();
        float[][] rows = new float[ids.length][];
        try {
            for (int from = 0; from < ids.length; from += chunk) {
                int n = Math.min(chunk, ids.length - from);
                step(table, ids, from, n, Logits.ALL);
                for (int i = 0; i < n; i++) {
                    rows[from + i] = row(i);
                }
            }
            return rows;
        } finally {
            table.release();
        }
    }

    /// Logits of the draft layer at every position but the last, the prompt cut into chunks.
    public float[][] drafts(int[] ids, int chunk) {
        PageTable table = newTable();
        float[][] rows = new float[ids.length - 1][];
        try {
            for (int from = 0; from < rows.length; from += chunk) {
                int n = Math.min(chunk, rows.length - from);
                step(table, ids, from, n, Logits.NONE);
                draft(table, ids, from, n);
                for (int i = 0; i < n; i++) {
                    rows[from + i] = row(i);
                }
            }
            return rows;
        } finally {
            table.release();
        }
    }

    /// Feeds the draft layer with the rows of the last step; returns the number of logit rows.
    public int draft(PageTable table, int[] ids, int from, int count) {
        plan.clear();
        plan.add(table, ids, from + 1, count, from, Logits.ALL);
        return transformer.draft(plan, IntStream.range(0, count).toArray(), false);
    }

    /// One step with one segment; returns the number of logit rows.
    public int step(PageTable table, int[] ids, int from, int count, Logits wanted) {
        if (!table.ensure(from + count)) {
            throw new IllegalStateException("the pool of the test is too small");
        }
        plan.clear();
        plan.add(table, ids, from, count, from, wanted);
        return transformer.forward(plan);
    }

    /// A copy of a row of the last step's logits.
    public float[] row(int i) {
        int vocab = config.vocabSize();
        return Arrays.copyOfRange(transformer.logits(), i * vocab, (i + 1) * vocab);
    }

    @Override
    public void close() {
        pool.close();
        weights.close();
        backend.close();
    }
}

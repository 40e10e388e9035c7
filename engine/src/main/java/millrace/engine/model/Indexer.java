package millrace.engine.model;

import java.util.Arrays;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.Selection;
import millrace.engine.kv.KvLayout;

/// Chooses the positions that the rows of a step attend to, in models of sparse attention; used layer after layer.
///
/// ```
///  normed query latent ─▶ q [row][head · dim] ─▶ rotate ─┐
///  normed hidden state ─▶ weights [row][head]            ├─▶ select ─▶ positions, also for the layers that share them
///                      ─▶ key ─▶ layer norm ─▶ rotate ─▶ index pages
/// ```
///
/// A layer with an indexer of its own always writes its keys; it makes queries and chooses only in steps where some row stands
/// behind more positions than are chosen: before, attention is dense.
final class Indexer {
    private final IndexerConfig config;
    private final long[] offsets; // of each layer that has index keys, in a page
    private final CacheShape.Keys shape;
    private final Kernels kernels;
    private final Projections projections = new Projections(2);
    private final float scale;
    private final Rows q; // [row][head · headDim]
    private final Rows key; // [row][headDim]
    private final Rows weights; // [row][head]
    private final Selection selection;

    /// Whether rows of this step attend to chosen positions.
    private boolean choosing;

    /// Whether these are positions that were chosen before.
    private boolean reusing;

    Indexer(ModelConfig model, IndexerConfig config, KvLayout layout, CacheShape.Keys shape, Kernels kernels, int maxRows) {
        this.config = config;
        offsets = new long[model.cachedLayers()];
        Arrays.setAll(offsets, layer -> model.indexes(layer) ? layout.indexOffset(model.indexedBefore(layer)) : -1);
        this.shape = shape;
        this.kernels = kernels;
        scale = (float) (1 / Math.sqrt((double) config.heads() * config.headDim()));
        q = kernels.rows(maxRows, config.heads() * config.headDim());
        key = kernels.rows(maxRows, config.headDim());
        weights = kernels.rows(maxRows, config.heads());
        selection = kernels.selection(maxRows, config.topK());
    }

    /// Floats and integers of a row.
    static long perRow(IndexerConfig config) {
        return (long) (config.heads() + 1) * (config.headDim() + 1) + config.topK();
    }

    /// Begins a step.
    ///
    /// @param last the largest position of its rows
    void begin(int last) {
        choosing = last >= config.topK() || kernels.records();
        reusing = false;
    }

    /// Begins a step of drafts that follow others: they attend to the positions of these, in models that want it so.
    ///
    /// @param sources which of the rows that were chosen for last each row follows, ascending
    void beginFurther(int last, int[] sources, int rows) {
        boolean chosen = choosing;
        begin(last);
        reusing = chosen && choosing && config.shareAcrossDrafts();
        if (reusing) {
            kernels.gather(selection, sources, rows);
        }
    }

    /// Writes the keys of all rows, and makes what their choice needs.
    ///
    /// @param x `[rows][hiddenSize]`, normed
    /// @param queryLatent `[rows][qLoraRank]`, normed
    void write(LayerWeights.Indexer w, int layer, Rows x, Rows queryLatent, int rows, Rows angles, CacheBatch batch) {
        projections.clear().add(key, w.key(), null, x, rows);
        if (choosing && !reusing) {
            kernels.project(projections.add(weights, w.weights(), null, x, rows));
            kernels.project(projections.clear().add(q, w.query(), null, queryLatent, rows));
            kernels.rotate(q, rows, config.heads(), config.headDim(), 0, angles, config.interleaved());
        } else {
            kernels.project(projections);
        }
        kernels.layerNorm(key, key, w.keyNorm(), w.keyNormBias(), IndexerConfig.KEY_NORM_EPS, rows);
        kernels.rotate(key, rows, 1, config.headDim(), 0, angles, config.interleaved());
        kernels.store(shape, batch, offsets[layer], key);
    }

    /// Moves what the given rows have to the front.
    ///
    /// @param own whether the layer is still to choose
    void keep(boolean own, int[] sources, int rows) {
        if (!choosing) {
            return;
        }
        if (own) {
            kernels.gather(q, q, sources, rows);
            kernels.gather(weights, weights, sources, rows);
        } else {
            kernels.gather(selection, sources, rows);
        }
    }

    /// Chooses the positions of the rows of the batch.
    void choose(int layer, CacheBatch batch) {
        if (choosing && !reusing) {
            kernels.select(shape, batch, offsets[layer], config.heads(), scale, q, weights, selection);
        }
    }

    /// Whether positions were chosen; else every row attends to all up to its own.
    boolean chose() {
        return choosing;
    }

    /// What was chosen last.
    Selection selection() {
        return selection;
    }
}

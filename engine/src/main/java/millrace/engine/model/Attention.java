package millrace.engine.model;

import java.util.Objects;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.CacheShape;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.Rows;
import millrace.engine.kv.KvLayout;
import org.jspecify.annotations.Nullable;

/// Attention of one model, with the room for its intermediate results; used layer after layer.
///
/// It comes in two halves, so that the last layer can write the keys of all rows and attend from few: [#write] makes
/// queries and stores keys and values, [#read] attends from the first rows of the queries. Attention always reads the
/// cache, also for the rows of the running step: then it does not matter in which steps a prompt came.
sealed interface Attention {
    /// Begins a step.
    ///
    /// @param last the largest position of its rows
    default void begin(int last) {}

    /// Begins a step of drafts that follow those of the last.
    ///
    /// @param sources which of the wanted rows of the last step each row follows, ascending
    default void beginFurther(int last, int[] sources, int rows) {
        begin(last);
    }

    /// Makes queries of all rows, and writes their keys and values into the cache.
    ///
    /// @param x `[rows][hiddenSize]`, normed
    /// @param angles `[rows][rotaryDim]`
    void write(LayerWeights weights, int layer, Rows x, int rows, Rows angles, CacheBatch batch);

    /// Moves the queries of the given rows to the front.
    void keep(LayerWeights weights, int[] sources, int rows);

    /// Attends from the first `rows` queries, as the batch says, and projects to `out`.
    void read(LayerWeights weights, int layer, int rows, CacheBatch batch, Rows out);

    static Attention of(ModelConfig config, KvLayout layout, Kernels kernels, int maxRows) {
        return switch (layout.shape()) {
            case CacheShape.Grouped shape -> new Grouped(config, layout, shape, kernels, maxRows);
            case CacheShape.Latent shape -> new Latent(config, layout, shape, kernels, maxRows);
        };
    }

    /// Heads share keys and values in groups.
    final class Grouped implements Attention {
        private final ModelConfig config;
        private final KvLayout layout;
        private final CacheShape.Grouped shape;
        private final Kernels kernels;
        private final Projections projections = new Projections(3);
        private final float scale;
        private final Rows q; // [row][head · headDim]
        private final Rows k; // [row][kvHead · headDim]
        private final Rows v; // [row][kvHead · headDim]
        private final Rows heads; // [row][head · headDim]

        private Grouped(
                ModelConfig config, KvLayout layout, CacheShape.Grouped shape, Kernels kernels, int maxRows) {
            this.config = config;
            this.layout = layout;
            this.shape = shape;
            this.kernels = kernels;
            scale = (float) (1 / Math.sqrt(config.headDim()));
            q = kernels.rows(maxRows, config.numAttentionHeads() * config.headDim());
            k = kernels.rows(maxRows, config.numKeyValueHeads() * config.headDim());
            v = kernels.rows(maxRows, config.numKeyValueHeads() * config.headDim());
            heads = kernels.rows(maxRows, config.numAttentionHeads() * config.headDim());
        }

        @Override
        public void write(LayerWeights weights, int layer, Rows x, int rows, Rows angles, CacheBatch batch) {
            var w = (LayerWeights.Grouped) weights.attention();
            kernels.project(projections
                    .clear()
                    .add(q, w.q(), w.qBias(), x, rows)
                    .add(k, w.k(), w.kBias(), x, rows)
                    .add(v, w.v(), w.vBias(), x, rows));
            int headDim = config.headDim();
            int kvHeads = config.numKeyValueHeads();
            if (w.qNorm() != null) {
                kernels.rmsNorm(q, q, w.qNorm(), config.rmsNormEps(), rows, config.numAttentionHeads());
            }
            if (w.kNorm() != null) {
                kernels.rmsNorm(k, k, w.kNorm(), config.rmsNormEps(), rows, kvHeads);
            }
            boolean interleaved = config.rope().interleaved();
            kernels.rotate(q, rows, config.numAttentionHeads(), headDim, 0, angles, interleaved);
            kernels.rotate(k, rows, kvHeads, headDim, 0, angles, interleaved);
            kernels.store(shape, batch, layout.blockOffset(layer, 0), kvHeads, k, v);
        }

        @Override
        public void keep(LayerWeights weights, int[] sources, int rows) {
            kernels.gather(q, q, sources, rows);
        }

        @Override
        public void read(LayerWeights weights, int layer, int rows, CacheBatch batch, Rows out) {
            var w = (LayerWeights.Grouped) weights.attention();
            kernels.attend(
                    shape,
                    batch,
                    layout.blockOffset(layer, 0),
                    config.numAttentionHeads(),
                    config.numKeyValueHeads(),
                    scale,
                    q,
                    heads);
            kernels.project(projections.clear().add(out, w.output(), null, heads, rows));
        }
    }

    /// Multi-head latent attention, always in its absorbed form: queries go into the latent space instead of latents
    /// out of it. One form for prompts and single tokens, so that bits do not depend on how a prompt was cut.
    ///
    /// Where an indexer chooses, a layer without one of its own takes the positions of the layer before it.
    final class Latent implements Attention {
        private final ModelConfig config;
        private final MlaConfig mla;
        private final KvLayout layout;
        private final CacheShape.Latent shape;
        private final Kernels kernels;
        private final Projections projections;
        private final float scale;
        private final Rows queryLatent; // [row][qLoraRank]
        private final Rows q; // [row][head · (nope, rope)]
        private final Rows[] nope; // of each head, in q
        private final Rows keyValue; // [row][latent, rope]
        private final Rows latent;
        private final Rows ropeKey;
        private final Rows latentQ; // [row][head · rank]
        private final Rows[] latentQOf; // of each head
        private final Rows mixed; // [row][head · rank]
        private final Rows[] mixedOf;
        private final Rows heads; // [row][head · vHeadDim]
        private final Rows[] headsOf;
        private final @Nullable Indexer indexer;

        private Latent(ModelConfig config, KvLayout layout, CacheShape.Latent shape, Kernels kernels, int maxRows) {
            MlaConfig m = Objects.requireNonNull(config.mla());
            int n = config.numAttentionHeads();
            this.config = config;
            this.mla = m;
            this.layout = layout;
            this.shape = shape;
            this.kernels = kernels;
            projections = new Projections(Math.max(2, n));
            scale = (float) (RotaryEmbedding.softmaxFactor(config.rope().scaling()) / Math.sqrt(m.qkHeadDim()));
            queryLatent = kernels.rows(maxRows, Math.max(1, m.qLoraRank()));
            q = kernels.rows(maxRows, n * m.qkHeadDim());
            nope = new Rows[n];
            for (int h = 0; h < n; h++) {
                nope[h] = q.columns(h * m.qkHeadDim(), m.qkNopeHeadDim());
            }
            keyValue = kernels.rows(maxRows, m.kvLoraRank() + m.qkRopeHeadDim());
            latent = keyValue.columns(0, m.kvLoraRank());
            ropeKey = keyValue.columns(m.kvLoraRank(), m.qkRopeHeadDim());
            latentQ = kernels.rows(maxRows, n * m.kvLoraRank());
            latentQOf = perHead(latentQ, n);
            mixed = kernels.rows(maxRows, n * m.kvLoraRank());
            mixedOf = perHead(mixed, n);
            heads = kernels.rows(maxRows, n * m.vHeadDim());
            headsOf = perHead(heads, n);
            indexer = config.indexer() == null
                    ? null
                    : new Indexer(
                            config, config.indexer(), layout, Objects.requireNonNull(layout.index()), kernels, maxRows);
        }

        private static Rows[] perHead(Rows all, int heads) {
            Rows[] views = new Rows[heads];
            int width = all.width() / heads;
            for (int h = 0; h < heads; h++) {
                views[h] = all.columns(h * width, width);
            }
            return views;
        }

        @Override
        public void begin(int last) {
            if (indexer != null) {
                indexer.begin(last);
            }
        }

        @Override
        public void beginFurther(int last, int[] sources, int rows) {
            if (indexer != null) {
                indexer.beginFurther(last, sources, rows);
            }
        }

        @Override
        public void write(LayerWeights weights, int layer, Rows x, int rows, Rows angles, CacheBatch batch) {
            var w = (LayerWeights.Latent) weights.attention();
            projections.clear().add(keyValue, w.keyValueDown(), null, x, rows);
            if (w.queryDown() != null && w.queryNorm() != null) {
                kernels.project(projections.add(queryLatent, w.queryDown(), null, x, rows));
                kernels.rmsNorm(queryLatent, queryLatent, w.queryNorm(), MlaConfig.LATENT_NORM_EPS, rows, 1);
                kernels.project(projections.clear().add(q, w.query(), null, queryLatent, rows));
            } else {
                kernels.project(projections.add(q, w.query(), null, x, rows));
            }
            kernels.rmsNorm(latent, latent, w.latentNorm(), MlaConfig.LATENT_NORM_EPS, rows, 1);
            int n = config.numAttentionHeads();
            boolean interleaved = config.rope().interleaved();
            kernels.rotate(q, rows, n, mla.qkHeadDim(), mla.qkNopeHeadDim(), angles, interleaved);
            kernels.rotate(ropeKey, rows, 1, mla.qkRopeHeadDim(), 0, angles, interleaved);
            kernels.store(shape, batch, layout.blockOffset(layer, 0), latent, ropeKey);
            if (indexer != null && w.indexer() != null) {
                indexer.write(w.indexer(), layer, x, queryLatent, rows, angles, batch);
            }
        }

        @Override
        public void keep(LayerWeights weights, int[] sources, int rows) {
            kernels.gather(q, q, sources, rows);
            if (indexer != null) {
                indexer.keep(((LayerWeights.Latent) weights.attention()).indexer() != null, sources, rows);
            }
        }

        @Override
        public void read(LayerWeights weights, int layer, int rows, CacheBatch batch, Rows out) {
            var w = (LayerWeights.Latent) weights.attention();
            int n = config.numAttentionHeads();
            projections.clear();
            for (int h = 0; h < n; h++) {
                projections.add(latentQOf[h], w.keyUp().get(h), null, nope[h], rows);
            }
            kernels.project(projections);
            long offset = layout.blockOffset(layer, 0);
            if (indexer != null && w.indexer() != null) {
                indexer.choose(layer, batch);
            }
            if (indexer != null && indexer.chose()) {
                kernels.attend(shape, batch, offset, n, scale, latentQ, q, indexer.selection(), mixed);
            } else {
                kernels.attend(shape, batch, offset, n, scale, latentQ, q, mixed);
            }
            projections.clear();
            for (int h = 0; h < n; h++) {
                projections.add(headsOf[h], w.valueUp().get(h), null, mixedOf[h], rows);
            }
            kernels.project(projections);
            kernels.project(projections.clear().add(out, w.output(), null, heads, rows));
        }
    }
}

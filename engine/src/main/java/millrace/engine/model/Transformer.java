package millrace.engine.model;

import java.util.List;
import java.util.Objects;
import java.util.function.IntConsumer;
import millrace.engine.BackendException;
import millrace.engine.KvFormat;
import millrace.engine.batch.LogitFacts;
import millrace.engine.batch.StepModel;
import millrace.engine.batch.StepPlan;
import millrace.engine.kernel.CacheBatch;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Projections;
import millrace.engine.kernel.RowFacts;
import millrace.engine.kernel.Rows;
import millrace.engine.kernel.StepInputs;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// The forward pass: the rows of a step, whatever sequences they belong to, through all layers at once.
///
/// ```
///  tokens ─▶ embedding ─▶ x
///  each layer:   x += attention(norm(x))        keys and values of the rows go into their pages first
///                x += feedForward(norm(x))
///  rows that want logits ─▶ norm ─▶ lmHead ─▶ logits
/// ```
///
/// With a draft layer, the norm is taken of all rows, since each is where a draft may start from:
///
/// ```
///  norm(embedding(next token)), norm(hidden state) ─▶ project ─▶ x, through the draft layer ─▶ its norm ─▶ its head ─▶ logits
/// ```
///
/// A row's result depends on its tokens up to its position and on nothing else: not on the other rows, on how its
/// sequence was cut into steps, on threads, or on the backend. [Kernels] says why. A step allocates nothing after the
/// first few. One thread at a time.
public final class Transformer implements StepModel {
    private static final double BOUND_MARGIN = 1.01;

    private final ModelConfig config;
    private final ModelWeights weights;
    private final Kernels kernels;
    private final Attention attention;
    private final FeedForward feedForward;
    private final RotaryEmbedding rotary;
    private final StepInputs inputs;
    private final Runnable operations = this::compute;
    private final Rows x; // [row][hiddenSize], the residual stream
    private final Rows normed; // [row][hiddenSize]
    private final Rows delta; // [row][hiddenSize], what a part adds
    private final Rows logits; // [logit row][vocabSize]
    private final @Nullable RowFacts facts; // of the logits
    private final @Nullable KnownLogits known;
    private final Projections head = new Projections(1);
    private final @Nullable Drafter drafter;

    /// Whether the inputs of the next step were sent.
    private boolean ready;

    /// Whether the hidden states of all rows of the step are kept for the draft layer.
    private boolean kept;

    /// The largest position of the rows of the inputs.
    private int lastPosition;

    /// @param pool of the pages that steps will read and write
    /// @param maxRows the most rows of a step
    /// @param maxLogitRows the most of them that want logits
    public Transformer(
            ModelConfig config, ModelWeights weights, PagePool pool, Kernels kernels, int maxRows, int maxLogitRows) {
        this(
                config,
                weights,
                pool.layout(),
                Math.min(pool.pageCount(), PagePool.pagesFor(config.maxPositionEmbeddings())),
                kernels,
                maxRows,
                maxLogitRows);
    }

    /// Before there is a pool.
    ///
    /// @param layout of its pages
    /// @param maxPages the most pages of a sequence
    public Transformer(
            ModelConfig config,
            ModelWeights weights,
            KvLayout layout,
            int maxPages,
            Kernels kernels,
            int maxRows,
            int maxLogitRows) {
        if (!layout.equals(kvLayout(config, layout.format(), layout.indexFormat()))) {
            throw new IllegalArgumentException("transformer: a KV cache of another model: " + layout);
        }
        this.config = config;
        this.weights = weights;
        this.kernels = kernels;
        attention = Attention.of(config, layout, kernels, maxRows);
        feedForward = new FeedForward(config, kernels, maxRows);
        rotary = weights.rotary();
        inputs = kernels.inputs(maxRows, maxPages, rotary.rotaryDim());
        x = kernels.rows(maxRows, config.hiddenSize());
        normed = kernels.hostRows(maxRows, config.hiddenSize());
        delta = kernels.rows(maxRows, config.hiddenSize());
        logits = kernels.hostRows(maxLogitRows, config.vocabSize());
        facts = kernels.facts(maxLogitRows, config.vocabSize());
        known = facts == null ? null : new KnownLogits(kernels, logits, facts);
        drafter = weights.draft() == null ? null : new Drafter(weights.draft(), maxRows, maxLogitRows);
    }

    /// The draft layer, with the room for what it starts from.
    private final class Drafter {
        private final LayerWeights.Draft weights;
        private final Rows states; // [row][hiddenSize], of the last step, behind the final norm
        private final Rows both; // [row][2 · hiddenSize]
        private final Rows embeddings; // in both
        private final Rows hiddens; // in both
        private final Rows drafted; // [logit row][hiddenSize], behind the draft layer's norm
        private final Runnable first = () -> compute(false);
        private final Runnable further = () -> compute(true);

        Drafter(LayerWeights.Draft weights, int maxRows, int maxLogitRows) {
            this.weights = weights;
            int hidden = config.hiddenSize();
            states = kernels.rows(maxRows, hidden);
            both = kernels.rows(maxRows, 2 * hidden);
            embeddings = both.columns(0, hidden);
            hiddens = both.columns(hidden, hidden);
            drafted = kernels.rows(maxLogitRows, hidden);
        }

        private void compute(boolean fromDrafts) {
            int rows = inputs.rows();
            float eps = config.rmsNormEps();
            kernels.embed(delta, weights.embedding(), inputs.tokens(), rows);
            kernels.rmsNorm(embeddings, delta, weights.embeddingNorm(), eps, rows, 1);
            kernels.gather(delta, fromDrafts ? carried() : states, inputs.sources(), rows);
            kernels.rmsNorm(hiddens, delta, weights.hiddenNorm(), eps, rows, 1);
            kernels.project(head.clear().add(x, weights.project(), null, both, rows));
            kernels.rmsNorm(normed, x, weights.layer().inputNorm(), eps, rows, 1);
            rows = layer(weights.layer(), config.numHiddenLayers(), rows, true, weights.headNorm(), drafted);
            if (rows > 0) {
                kernels.project(head.clear().add(logits, weights.head(), null, drafted, rows));
            }
        }

        /// What further drafts start from: the rows with logits stand at the front of both.
        private Rows carried() {
            return Objects.requireNonNull(config.draft()).carriesNormed() ? drafted : x;
        }
    }

    /// The formats that this model's cache can have.
    public static List<KvFormat> kvFormats(ModelConfig config) {
        return KvFormat.of(kvKind(config), config.headDim());
    }

    /// What this model caches.
    public static KvFormat.Kind kvKind(ModelConfig config) {
        return config.mla() == null ? KvFormat.Kind.GROUPED : KvFormat.Kind.LATENT;
    }

    /// What a page of this model's cache holds.
    ///
    /// @throws BackendException `KV_FORMAT` for a format that it cannot have
    public static KvLayout kvLayout(ModelConfig config, KvFormat format) {
        return kvLayout(config, format, null);
    }

    /// The same with the format of index keys, where the model has such; null for the one that goes with `format`.
    ///
    /// @throws BackendException `KV_FORMAT`, `KV_INDEX_FORMAT` for a format that it cannot have
    public static KvLayout kvLayout(ModelConfig config, KvFormat format, @Nullable KvFormat indexFormat) {
        MlaConfig mla = config.mla();
        format.require(kvKind(config), config.headDim());
        KvLayout layout = mla == null
                ? KvLayout.grouped(format, config.numHiddenLayers(), config.numKeyValueHeads(), config.headDim())
                : KvLayout.latent(format, config.numHiddenLayers(), mla.kvLoraRank(), mla.qkRopeHeadDim());
        if (config.draft() != null) {
            layout = layout.withDraftLayer();
        }
        IndexerConfig indexer = config.indexer();
        if (indexer == null) {
            if (indexFormat != null) {
                throw new BackendException("KV_INDEX_FORMAT", "engine.kv.index.format: expected auto, as the model has no"
                        + " indexer, got \"" + indexFormat.id() + "\"; leave it out");
            }
            return layout;
        }
        KvFormat index = indexFormat == null ? format.indexFormat() : indexFormat;
        index.requireForIndex(indexer.headDim());
        return layout.withIndex(index, config.indexedLayers(), indexer.headDim());
    }

    @Override
    public float[] logits() {
        return logits.values();
    }

    @Override
    public @Nullable LogitFacts facts() {
        return known;
    }

    @Override
    public int vocabSize() {
        return config.vocabSize();
    }

    /// The last norm gives `x = y ⊙ gain` with `‖y‖ ≤ √n`, n = hiddenSize, so a logit `w · x` is at most
    /// `√n · ‖w ⊙ gain‖` (Cauchy and Schwarz), whatever the hidden state; of all rows of lmHead the largest counts. The margin is
    /// far above the rounding errors of [Kernels], which are bounded by the same product.
    @Override
    public void forEach(int count, IntConsumer task) {
        kernels.forEach(count, task);
    }

    @Override
    public float logitBound() {
        float[] gain = weights.finalNorm();
        int most = inputs.maxRows();
        double[] squares = new double[most];
        double largest = 0;
        for (int from = 0; from < config.vocabSize(); from += most) {
            int rows = Math.min(most, config.vocabSize() - from);
            inputs.clear();
            for (int row = 0; row < rows; row++) {
                inputs.addRow(from + row);
            }
            kernels.send(inputs);
            kernels.embed(normed, weights.lmHead(), inputs.tokens(), rows);
            kernels.fetch(normed, rows);
            kernels.forEach(rows, row -> squares[row] = sumOfSquares(normed.values(), normed.at(row), gain));
            for (int row = 0; row < rows; row++) {
                largest = Math.max(largest, squares[row]);
            }
        }
        double bound = BOUND_MARGIN * Math.sqrt(config.hiddenSize() * largest);
        return bound < Float.MAX_VALUE ? (float) bound : Float.MAX_VALUE;
    }

    private static double sumOfSquares(float[] row, int at, float[] gain) {
        double sum = 0;
        for (int i = 0; i < gain.length; i++) {
            double product = (double) row[at + i] * gain[i];
            sum += product * product;
        }
        return sum;
    }

    @Override
    public float[] hidden() {
        return normed.values();
    }

    @Override
    public int hiddenSize() {
        return config.hiddenSize();
    }

    @Override
    public int firstForeign(StepPlan plan) {
        read(plan);
        if (inputs.rows() == 0) {
            return -1;
        }
        kernels.send(inputs);
        int foreign = kernels.firstForeign(inputs);
        ready = foreign < 0;
        return foreign;
    }

    @Override
    public boolean drafts() {
        return drafter != null;
    }

    @Override
    public int draft(StepPlan plan, int[] sources, boolean further) {
        if (drafter == null) {
            throw new UnsupportedOperationException("this model has no draft layer");
        }
        if (!kept) {
            throw new IllegalStateException("drafts: expected a step whose hidden states are kept, got one that feeds nothing");
        }
        read(plan);
        int rows = inputs.rows();
        if (rows == 0) {
            return 0;
        }
        System.arraycopy(sources, 0, inputs.sources(), 0, rows);
        kernels.send(inputs);
        if (further) {
            attention.beginFurther(lastPosition, inputs.sources(), rows);
        } else {
            attention.begin(lastPosition);
        }
        kernels.run(0, further ? drafter.further : drafter.first);
        if (inputs.wanted() > 0) {
            kernels.fetch(logits, inputs.wanted());
        }
        return inputs.wanted();
    }

    @Override
    public int forward(StepPlan plan) {
        if (!ready) {
            read(plan);
            if (inputs.rows() == 0) {
                return 0;
            }
            kernels.send(inputs);
        }
        ready = false;
        // A bucket is recorded once, and all of its rows are wanted anyway.
        kept = drafter != null && (plan.feeding() || inputs.bucket() > 0);
        attention.begin(lastPosition);
        kernels.run(inputs.bucket(), operations);
        int wanted = inputs.wanted();
        if (wanted > 0) {
            if (known != null) {
                known.ask(plan);
            }
            kernels.fetch(logits, normed, facts, wanted);
        }
        return wanted;
    }

    /// Writes what the rows of a plan keep of themselves if no layer adds to their embedding: keys of the model's own weights, at
    /// a tenth of a step's cost. So a bench fills the cache of a long context; what is computed from it is no answer.
    ///
    /// @param plan without logits
    public void fill(StepPlan plan) {
        ready = false;
        read(plan);
        kernels.send(inputs);
        attention.begin(lastPosition);
        kept = drafter != null;
        kernels.run(0, this::fillPages);
    }

    private void fillPages() {
        int rows = inputs.rows();
        float eps = config.rmsNormEps();
        kernels.embed(x, weights.embedding(), inputs.tokens(), rows);
        for (int layer = 0; layer < config.numHiddenLayers(); layer++) {
            kernels.rmsNorm(normed, x, weights.layer(layer).inputNorm(), eps, rows, 1);
            attention.write(weights.layer(layer), layer, normed, rows, inputs.angles(), inputs.batch());
        }
        if (drafter != null) {
            kernels.rmsNorm(drafter.states, x, weights.finalNorm(), eps, rows, 1);
        }
    }

    /// The operations of a step. Where all rows are wanted, which depends on the bucket alone, none is moved.
    private void compute() {
        int rows = inputs.rows();
        float eps = config.rmsNormEps();
        kernels.embed(x, weights.embedding(), inputs.tokens(), rows);
        kernels.rmsNorm(normed, x, weights.layer(0).inputNorm(), eps, rows, 1);
        int lastLayer = config.numHiddenLayers() - 1;
        for (int layer = 0; layer < lastLayer; layer++) {
            layer(weights.layer(layer), layer, rows, false, weights.layer(layer + 1).inputNorm(), normed);
        }
        LayerWeights last = weights.layer(lastLayer);
        if (drafter == null || !kept) {
            rows = layer(last, lastLayer, rows, true, weights.finalNorm(), normed);
        } else {
            layer(last, lastLayer, rows, false, weights.finalNorm(), drafter.states);
            rows = inputs.wanted();
            if (rows > 0) {
                kernels.gather(normed, drafter.states, inputs.wantedRows(), rows);
            }
        }
        if (rows == 0) {
            return;
        }
        kernels.project(head.clear().add(logits, weights.lmHead(), null, normed, rows));
        if (facts != null) {
            kernels.inspect(facts, logits, rows);
        }
    }

    /// One layer over the first rows of x, whose norm `normed` holds.
    ///
    /// @param nextNorm of what comes behind it, whose result goes to `next`
    /// @param last whether only rows with logits matter once keys and values of all rows are in the cache; they are then the
    ///        first of x
    /// @return how many rows are left
    private int layer(LayerWeights w, int layer, int allRows, boolean last, float[] nextNorm, Rows next) {
        int rows = allRows;
        float eps = config.rmsNormEps();
        CacheBatch batch = inputs.batch();
        attention.write(w, layer, normed, rows, inputs.angles(), batch);
        if (last && inputs.wanted() < rows) {
            batch = inputs.wantedBatch();
            rows = inputs.wanted();
            if (rows == 0) {
                return 0;
            }
            attention.keep(w, inputs.wantedRows(), rows);
            kernels.gather(x, x, inputs.wantedRows(), rows);
        }
        attention.read(w, layer, rows, batch, delta);
        if (w.attentionOutputNorm() != null) {
            kernels.rmsNorm(delta, delta, w.attentionOutputNorm(), eps, rows, 1);
        }
        kernels.addNorm(normed, x, delta, w.feedForwardNorm(), eps, rows);
        feedForward.run(w.feedForward(), normed, rows, delta);
        if (w.feedForwardOutputNorm() != null) {
            kernels.rmsNorm(delta, delta, w.feedForwardOutputNorm(), eps, rows, 1);
        }
        kernels.addNorm(next, x, delta, nextNorm, eps, rows);
        return rows;
    }

    /// Takes the plan over: tokens, angles, and the segments of all rows and of those with logits.
    private void read(StepPlan plan) {
        int rows = plan.rowCount();
        if (rows > inputs.maxRows() || plan.logitRowCount() > logits.capacity()) {
            throw new IllegalArgumentException("step: expected at most %d rows, %d with logits, got %d and %d"
                    .formatted(inputs.maxRows(), logits.capacity(), rows, plan.logitRowCount()));
        }
        inputs.clear();
        lastPosition = 0;
        for (int s = 0; s < plan.segmentCount(); s++) {
            int n = plan.rows(s);
            for (int row = plan.firstRow(s); row < plan.firstRow(s) + n; row++) {
                int token = plan.token(row);
                if (token < 0 || token >= config.vocabSize()) {
                    throw new IllegalArgumentException(
                            "step: expected tokens below " + config.vocabSize() + ", got " + token + " in row " + row);
                }
                inputs.addRow(token);
                rotary.angles(plan.position(row), inputs.angles().values(), inputs.angles().at(row));
            }
            lastPosition = Math.max(lastPosition, plan.startPosition(s) + n - 1);
            PageTable pages = plan.pages(s);
            int wanted = switch (plan.wanted(s)) {
                case NONE -> 0;
                case LAST -> 1;
                case ALL -> n;
            };
            inputs.addSegment(pages.addresses(), pages.epochs(), pages.pageCount(), n, plan.startPosition(s), wanted);
        }
    }
}

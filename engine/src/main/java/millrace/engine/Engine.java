package millrace.engine;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.function.UnaryOperator;
import millrace.engine.batch.BatchLoop;
import millrace.engine.batch.Checks;
import millrace.engine.batch.StepClock;
import millrace.engine.batch.StepModel;
import millrace.engine.batch.Vocabulary;
import millrace.engine.batch.WeightWatch;
import millrace.engine.kernel.Backend;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PageGuard;
import millrace.engine.kv.PagePool;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.ModelWeights;
import millrace.engine.model.ScratchRows;
import millrace.engine.model.TensorExpectation;
import millrace.engine.model.Transformer;
import millrace.engine.model.WeightTargets;
import millrace.engine.tokenizer.DocumentReader;
import millrace.engine.tokenizer.Reasoning;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.TensorManifest;
import org.jspecify.annotations.Nullable;

/// One model, loaded and checked, with the thread that computes.
///
/// Opening goes from the cheap to the dear, so that what must be refused is refused early: headers and configuration,
/// names and shapes of all tensors, tokenizer and chat format, the digest of every byte, then memory. Where somebody is
/// asked to vouch for the files, that comes first: nothing of an unknown origin is interpreted but its headers.
///
/// [#prepare] may be called from any thread and shares nothing with the computation; [#submit] and [#score] only queue.
public final class Engine implements TextEngine {
    private static final System.Logger LOG = System.getLogger(Engine.class.getName());

    /// Rows of logits of one step, if not more sequences than this share it: enough for scoring to fill the kernels.
    private static final int LOGIT_ROWS = 32;

    private final ModelCard card;
    private final TextCodec codec;
    private final RequestCheck check;
    private final PagePool pool;
    private final BatchLoop loop;
    private final IntegrityLedger ledger;
    private final @Nullable WeightGuard guard;
    private final Deque<AutoCloseable> resources;

    private Engine(
            ModelCard card,
            TextCodec codec,
            RequestCheck check,
            PagePool pool,
            BatchLoop loop,
            IntegrityLedger ledger,
            @Nullable WeightGuard guard,
            Deque<AutoCloseable> resources) {
        this.card = card;
        this.codec = codec;
        this.check = check;
        this.pool = pool;
        this.loop = loop;
        this.ledger = ledger;
        this.guard = guard;
        this.resources = resources;
    }

    /// Loads a model and starts its thread.
    ///
    /// @throws InvalidModelException for a checkpoint that is refused
    /// @throws BackendException for a backend or memory that cannot be had
    public static Engine open(EngineConfig config) {
        return open(config, WeightCheck.NONE);
    }

    /// The same, with somebody who vouches for the model's files.
    public static Engine open(EngineConfig config, WeightCheck check) {
        return open(config, check, TextCodec::read, UnaryOperator.identity());
    }

    /// The same for a checkpoint that may lack a tokenizer: it then takes token ids only.
    public static Engine openForIds(EngineConfig config) {
        return openForIds(config, WeightCheck.NONE);
    }

    /// The same, with somebody who vouches for the model's files.
    public static Engine openForIds(EngineConfig config, WeightCheck check) {
        return open(config, check, TextCodec::readIfPresent, UnaryOperator.identity());
    }

    /// The same with something around the steps: tests let them hang, fail and run out of memory. No configuration leads
    /// here.
    static Engine openAround(EngineConfig config, UnaryOperator<StepModel> around) {
        return open(config, WeightCheck.NONE, TextCodec::read, around);
    }

    /// The same for benches of long contexts: of a prompt only the last chunk is computed, what the cache has of the chunks before
    /// it is that of their embeddings ([Transformer#fill]). No configuration leads here, and nothing that it gives is an answer.
    public static Engine openFilled(EngineConfig config) {
        return open(config, WeightCheck.NONE, TextCodec::readIfPresent, model -> new FilledModel((Transformer) model));
    }

    private static Engine open(
            EngineConfig config, WeightCheck check, CodecReader reader, UnaryOperator<StepModel> around) {
        Deque<AutoCloseable> resources = new ArrayDeque<>();
        try {
            return open(config, check, reader, around, resources);
        } catch (RuntimeException | Error e) {
            release(resources);
            throw e;
        }
    }

    private record Opened(Path model, ModelFiles opened) implements LoadedFiles {
        @Override
        public List<ModelCard.FileDigest> files() {
            return opened.readFiles();
        }

        @Override
        public String sha256(String file, long from, long to) {
            return opened.sha256(file, from, to);
        }
    }

    private interface CodecReader {
        TextCodec read(ModelFiles files, @Nullable String chatFormat);
    }

    // The weights are repacked into memory of their own: the files need not stay open.
    private static Engine open(
            EngineConfig asked,
            WeightCheck check,
            CodecReader reader,
            UnaryOperator<StepModel> around,
            Deque<AutoCloseable> resources) {
        try (ModelFiles files = ModelFiles.open(asked.model())) {
            ModelTrust trust = check.check(new Opened(asked.model(), files));
            ModelConfig model = drafting(asked.speculation(), ModelConfig.read(files), files);
            // Nobody reserves rows for drafts that there will not be.
            EngineConfig config = model.draft() == null ? asked.withSpeculation(Speculation.OFF) : asked;
            TensorExpectation.check(model, files);
            TextCodec codec = reader.read(files, config.chatFormat());
            int maxContext = maxContext(config, model);
            if (config.pinnedDigest() != null) {
                files.requireDigest(config.pinnedDigest());
            }
            files.requireListed();
            Backend backend = Backend.open(config.backend(), config.threads(), MemoryPlanner.device(config));
            resources.push(backend);
            KvFormat kvFormat = config.kvFormat() == null
                    ? KvFormat.auto(Transformer.kvKind(model))
                    : config.kvFormat();
            KvLayout layout = Transformer.kvLayout(model, kvFormat, config.indexFormat());
            backend.kernels().require(layout.shape(), layout.index() != null);
            var planner = new MemoryPlanner(config, backend.kernels(), layout, maxContext);
            planner.expectWeights(ModelInspection.storedBytes(model, files));
            ModelWeights weights = ModelWeights.load(
                    model, files, backend.kernels(), WeightTargets.of(config.weightFormat()));
            resources.push(weights);
            IntegrityLedger ledger = new IntegrityLedger();
            WeightGuard guard = WeightGuard.of(config, files, weights, backend.kernels(), ledger, resources);
            planner.weigh(weights.bytesByFormat(), guard == null ? 0 : guard.table().bytes());
            MemoryPlan planned = planner.plan(ScratchRows.bytes(model, rows(config), logitRows(config)));
            Transformer transformer = new Transformer(
                    model,
                    weights,
                    planner.layout(),
                    PagePool.pagesFor(maxContext),
                    backend.kernels(),
                    rows(config),
                    logitRows(config));
            MemoryPlan plan = planner.settle(planned);
            PagePool pool = new PagePool(planner.layout(), plan.kv(), backend.kernels().cache());
            resources.push(pool);
            ModelCard card = card(config, model, files, codec, maxContext, backend, pool, planner.weightFormat(), plan, trust,
                    guard == null ? "" : guard.table().sha256());
            String identity = String.join(" ", card.modelDigest(), card.weightFormat(), card.kvFormat(), card.profile())
                    + (model.draft() == null ? "" : " draft");
            openChecks(config, pool, identity);
            var checks = new Checks(
                    config.integrity(), ledger, guard == null ? WeightWatch.NONE : guard, goldens(files, card),
                    backend.kernels().products(config.integrity().productInterval()));
            BatchLoop loop = loop(config, model, transformer, pool, codec, checks, around);
            resources.push(loop);
            if (guard != null) {
                guard.start(config.integrity(), loop, resources);
            }
            RequestCheck requests = new RequestCheck(model.vocabSize(), maxContext);
            return new Engine(card, codec, requests, pool, loop, ledger, guard, resources);
        }
    }

    private static ModelCard card(
            EngineConfig config,
            ModelConfig model,
            ModelFiles files,
            TextCodec codec,
            int maxContext,
            Backend backend,
            PagePool pool,
            String weightFormat,
            MemoryPlan plan,
            ModelTrust trust,
            String blockTable) {
        return new ModelCard(
                ModelInspection.name(config.model()),
                model.architecture(),
                files.modelDigest(),
                files.digests(),
                codec.tokenizer().digest(),
                codec.format().digest(),
                codec.chatFormat(),
                ModelInspection.parameters(model),
                model.vocabSize(),
                maxContext,
                backend.name(),
                backend.reason(),
                weightFormat,
                pool.layout().id(),
                pool.layout().bytesPerToken(),
                pool.pageCount() * pool.layout().pageBytes(),
                pool.capacityTokens(),
                plan,
                EngineBuild.describe(),
                backend.profile(),
                trust,
                blockTable,
                backend.kernels().device(),
                config.speculation());
    }

    /// @param identity names all that the bytes of a page depend on, tokens and salt apart
    private static void openChecks(EngineConfig config, PagePool pool, String identity) {
        IntegrityConfig integrity = config.integrity();
        if (!integrity.isOff()) {
            StepClock clock = StepClock.system();
            pool.openGuard(new PageGuard.Settings(
                    identity, integrity.kvMaxAge().toNanos(), clock::nanos, clock::epochMs));
        }
        if (config.prefixCache()) {
            pool.openIndex(identity);
        }
    }

    /// What the model's own list says that this engine must answer.
    private static List<Golden> goldens(ModelFiles files, ModelCard card) {
        TensorManifest manifest = files.manifest();
        return manifest == null
                ? List.of()
                : manifest.golden().stream().filter(golden -> golden.appliesTo(card)).toList();
    }

    private static BatchLoop loop(
            EngineConfig config,
            ModelConfig model,
            Transformer transformer,
            PagePool pool,
            TextCodec codec,
            Checks checks,
            UnaryOperator<StepModel> around) {
        List<Integer> stopTokens = ModelInspection.stopTokenIds(model, codec.tokenizer());
        return new BatchLoop(
                around.apply(transformer),
                pool,
                new Vocabulary(codec.tokenizer(), Set.copyOf(stopTokens), codec.format().calls()),
                StepClock.system(),
                new BatchLoop.Limits(
                        config.maxBatch(), config.prefillChunk(), logitRows(config), config.agingMs(),
                        config.speculation()),
                checks);
    }

    /// The model with its draft layer, where tokens may be drafted.
    private static ModelConfig drafting(Speculation speculation, ModelConfig model, ModelFiles files) {
        if (speculation.mode() == Speculation.Mode.OFF) {
            return model;
        }
        ModelConfig drafting = model.withDraft(files);
        if (drafting.draft() == null && speculation.mode() == Speculation.Mode.MTP) {
            throw new BackendException(
                    "SPECULATION_UNAVAILABLE",
                    "engine.speculation: expected off or auto, as the model has no draft layer (num_nextn_predict_layers and the"
                            + " tensors behind its last layer), got mtp; use a checkpoint that ships it, or leave it out");
        }
        return drafting;
    }

    private static int rows(EngineConfig config) {
        return decodeRows(config) + config.prefillChunk();
    }

    /// Rows of sequences that decode, drafts included.
    private static int decodeRows(EngineConfig config) {
        return config.maxBatch() * (1 + config.speculation().drafts());
    }

    private static int logitRows(EngineConfig config) {
        return Math.min(rows(config), Math.max(LOGIT_ROWS, decodeRows(config)));
    }

    private static int maxContext(EngineConfig config, ModelConfig model) {
        if (config.maxContext() > model.maxPositionEmbeddings()) {
            throw new InvalidModelException(
                    "CONFIG_CONTEXT",
                    "config.json: max_position_embeddings: expected at least the configured context of "
                            + config.maxContext() + " tokens, got " + model.maxPositionEmbeddings()
                            + "; lower engine.max.context");
        }
        return config.maxContext() == 0 ? model.maxPositionEmbeddings() : config.maxContext();
    }

    @Override
    public ModelCard card() {
        return card;
    }

    /// The tokenizer and chat format of the model.
    public TextCodec codec() {
        return codec;
    }

    @Override
    public PreparedPrompt prepare(GenerationRequest request) {
        check.check(request);
        loop.check(request.format());
        PreparedPrompt prompt = switch (request.input()) {
            case PromptInput.Text(String text) -> new PreparedPrompt(request, text, codec.encode(text, false));
            case PromptInput.Messages(List<ChatMessage> messages, ChatOptions options) -> {
                TextCodec.Rendering rendering = codec.render(messages, options);
                yield new PreparedPrompt(request, rendering.text(), rendering.ids());
            }
            case PromptInput.TokenIds(List<Integer> ids) -> {
                int[] array = array(ids);
                yield new PreparedPrompt(request, codec.tokenizer().decode(array), array);
            }
        };
        check.fits(prompt.ids().length, request.maxNewTokens(), pool.capacityTokens());
        return prompt;
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        return loop.generate(prompt, reasoning(prompt), listener);
    }

    /// Queues token ids for their logits, through the same steps as generations.
    ///
    /// @param id for messages only
    /// @param all logits of every position, else of the last
    /// @throws InvalidRequestException with a stable code, when the ids can never be served
    public Generation score(String id, List<Integer> ids, boolean all, ScoreListener listener) {
        check.ids(ids);
        check.fits(ids.size(), 0, pool.capacityTokens());
        return loop.score(id, array(ids), all, false, listener);
    }

    /// The same for the logits of the draft layer: at position t those of the token of position t + 2, from the hidden state of
    /// position t and the token of position t + 1. So of T tokens the first T − 1 have some.
    ///
    /// @param all logits of every such position, else of the last
    /// @throws InvalidRequestException with a stable code, when the ids can never be served, or the engine drafts no tokens
    public Generation scoreDrafts(String id, List<Integer> ids, boolean all, ScoreListener listener) {
        if (card.speculation().mode() == Speculation.Mode.OFF) {
            throw new InvalidRequestException(
                    "SPECULATION_UNAVAILABLE", "drafts: expected an engine with a draft layer, got one with speculation off");
        }
        check.ids(ids);
        if (ids.size() < 2) {
            throw new InvalidRequestException("PROMPT_EMPTY", "prompt: expected at least two tokens, got one");
        }
        check.fits(ids.size(), 0, pool.capacityTokens());
        return loop.score(id, array(ids), all, true, listener);
    }

    /// Follows an answer to a prompt, through the same steps as generations: what this engine would have chosen at each step.
    ///
    /// @param answer its tokens, at least one
    /// @throws InvalidRequestException with a stable code, when the tokens can never be served
    public Generation trace(PreparedPrompt prompt, List<Integer> answer, TraceListener listener) {
        check.ids(answer);
        check.fits(prompt.ids().length, answer.size(), pool.capacityTokens());
        return loop.trace(prompt, array(answer), reasoning(prompt), listener);
    }

    /// What an answer begins with: a document that was asked for begins behind it.
    private Reasoning reasoning(PreparedPrompt prompt) {
        return prompt.request().input() instanceof PromptInput.Messages(var messages, ChatOptions options)
                ? codec.format().reasoning(options)
                : Reasoning.NONE;
    }

    private static int[] array(List<Integer> ids) {
        return ids.stream().mapToInt(Integer::intValue).toArray();
    }

    @Override
    public ReplyReader replies(PreparedPrompt prompt) {
        ResponseFormat form = prompt.request().format();
        if (form instanceof ResponseFormat.Calls && prompt.request().input() instanceof PromptInput.Messages(var messages, ChatOptions options)) {
            return codec.calls(messages, options);
        }
        if (!(form instanceof ResponseFormat.Text)) {
            return DocumentReader.of(reasoning(prompt));
        }
        return prompt.request().input() instanceof PromptInput.Messages(List<ChatMessage> messages, ChatOptions options)
                ? codec.replies(messages, options)
                : ReplyReader.plain();
    }

    @Override
    public byte[] bytes(int token) {
        return codec.tokenizer().bytes(token);
    }

    @Override
    public int load() {
        return loop.load();
    }

    @Override
    public EngineStats stats() {
        return loop.stats();
    }

    @Override
    public @Nullable String failure() {
        return loop.failure();
    }

    /// The KV cache; tests damage what it holds.
    PagePool pool() {
        return pool;
    }

    /// Who watches the weights; tests damage what it watches.
    @Nullable WeightGuard guard() {
        return guard;
    }

    @Override
    public IntegrityState integrity() {
        return ledger.state();
    }

    @Override
    public boolean admitting() {
        return ledger.admitting();
    }

    @Override
    public List<IntegrityEvent> events(long after) {
        return ledger.events(after);
    }

    @Override
    public boolean trusts(GenerationResult result) {
        return ledger.trusts(result);
    }

    /// A step that hangs keeps what it uses: then nothing is released, and only the end of the process is.
    @Override
    public synchronized void close() {
        loop.close();
        if (loop.hung()) {
            LOG.log(System.Logger.Level.WARNING, "engine: a step hangs, its memory is not released; end the process");
            return;
        }
        release(resources);
    }

    /// Closes what was opened last first; every one, whatever the others do.
    private static void release(Deque<AutoCloseable> resources) {
        RuntimeException problem = null;
        while (!resources.isEmpty()) {
            try {
                resources.pop().close();
            } catch (Exception e) {
                if (problem == null) {
                    problem = new IllegalStateException("engine: closing failed: " + e.getMessage(), e);
                } else {
                    problem.addSuppressed(e);
                }
            }
        }
        if (problem != null) {
            throw problem;
        }
    }
}

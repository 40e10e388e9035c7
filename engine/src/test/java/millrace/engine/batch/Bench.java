package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.LongPredicate;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityLedger;
import millrace.engine.KvFormat;
import millrace.engine.Products;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import millrace.engine.Speculation;
import millrace.engine.TokenLogprob;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PageGuard;
import millrace.engine.kv.PagePool;
import millrace.engine.sampling.LogProbabilities;
import millrace.engine.sampling.Sampler;
import millrace.engine.tokenizer.IncrementalDecoder;
import org.jspecify.annotations.Nullable;

/// A scheduler over a [FakeModel] and a pool that shares pages, driven step by step.
final class Bench implements AutoCloseable {
    static final LogitsCheck CHECK = new LogitsCheck(FakeModel.VOCAB, 100);
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);

    final FakeModel model;
    final PagePool pool;
    final Scheduler scheduler;
    final Clock clock = new Clock();
    final FakeWatch watch = new FakeWatch();
    final FakeProducts products = new FakeProducts();
    final IntegrityLedger ledger = new IntegrityLedger(() -> clock.epochMs);
    final List<String> order = new ArrayList<>();
    private final Sampler sampler = new Sampler(FakeModel.VOCAB);
    private final Vocabulary vocabulary = new Vocabulary(new FakeTokenizer(), Set.of(FakeTokenizer.END));

    Bench(int maxBatch, int chunk, int pages, boolean sharing, long agingMs) {
        this(maxBatch, chunk, pages, sharing, agingMs, Speculation.OFF, null);
    }

    /// @param drafter logits of drafts; null without a draft layer
    Bench(
            int maxBatch,
            int chunk,
            int pages,
            boolean sharing,
            long agingMs,
            Speculation speculation,
            FakeModel.@Nullable Drafter drafter) {
        int logitRows = maxBatch * (1 + speculation.drafts()) + 2;
        model = new FakeModel(logitRows);
        model.drafter = drafter;
        KvLayout layout = drafter == null ? LAYOUT : LAYOUT.withDraftLayer();
        pool = new PagePool(layout, pages * layout.pageBytes());
        pool.openGuard(new PageGuard.Settings(
                "fake", 60_000_000_000L, clock::nanos, clock::epochMs));
        if (sharing) {
            pool.openIndex("fake");
        }
        scheduler = new Scheduler(
                model, pool, clock, new BatchLoop.Limits(maxBatch, chunk, logitRows, agingMs, speculation),
                new Checks(IntegrityConfig.DEFAULT, ledger, watch, List.of(), products));
    }

    /// Checks with nobody to tell.
    static Checks checks() {
        return new Checks(IntegrityConfig.DEFAULT, new IntegrityLedger(), WeightWatch.NONE, List.of());
    }

    Bench(int maxBatch, int chunk, int pages) {
        this(maxBatch, chunk, pages, true, 2_000);
    }

    @Override
    public void close() {
        pool.close();
    }

    /// One product is looked at in every step.
    final class FakeProducts implements Products {
        /// Of which steps it is wrong.
        LongPredicate wrong = step -> false;

        @Override
        public long checked() {
            return scheduler.steps();
        }

        @Override
        public long takeWrong() {
            return wrong.test(scheduler.steps()) ? 1 : 0;
        }
    }

    /// A request under way.
    final class Run implements GenerationListener {
        final GenerationRequest request;
        final Sequence sequence;
        final StringBuilder deltas = new StringBuilder();
        private @Nullable GenerationResult result;

        Run(GenerationRequest request) {
            this.request = request;
            sequence = sequence(request, this);
        }

        @Override
        public void onDelta(String text) {
            deltas.append(text);
        }

        @Override
        public void onRestart() {
            deltas.setLength(0);
        }

        @Override
        public void onEnd(GenerationResult end) {
            assertThat(result).as("second end").isNull();
            result = end;
            order.add(request.id());
        }

        boolean ended() {
            return result != null;
        }

        GenerationResult end() {
            assertThat(result).as("end of " + request.id()).isNotNull();
            return java.util.Objects.requireNonNull(result);
        }

        int cached() {
            return end().usage().cachedPromptTokens();
        }

        /// Prompt and completion.
        List<Integer> conversation() {
            List<Integer> all = new ArrayList<>(((PromptInput.TokenIds) request.input()).ids());
            all.addAll(end().tokenIds());
            return all;
        }
    }

    Sequence sequence(GenerationRequest request, GenerationListener listener) {
        return new Sequence(
                request.id(), tokens(request), request.maxNewTokens(), request.priority(), request.deadlineMs(),
                request.cacheSalt(), clock.nanos(),
                new GenerationWork(request, sampler, CHECK, 4, vocabulary, listener, clock, () -> {}));
    }

    Run submit(GenerationRequest request) {
        Run run = new Run(request);
        scheduler.submit(run.sequence);
        return run;
    }

    List<Run> submit(List<GenerationRequest> requests) {
        return requests.stream().map(this::submit).toList();
    }

    void steps(int count) {
        for (int i = 0; i < count; i++) {
            scheduler.step();
        }
    }

    void runToTheEnd(int mostSteps) {
        for (int i = 0; !scheduler.idle(); i++) {
            assertThat(i).as("steps").isLessThan(mostSteps);
            scheduler.step();
        }
    }

    Run complete(GenerationRequest request) {
        Run run = submit(request);
        runToTheEnd(10_000);
        return run;
    }

    /// All pages are free or idle, and every one of them can be had once the index is empty.
    void assertNothingHeld() {
        assertThat(pool.freePages()).isEqualTo(pool.pageCount());
        if (pool.index() != null) {
            pool.index().clear();
            assertThat(pool.index().pages()).isZero();
        }
        assertThat(pool.freePages()).isEqualTo(pool.pageCount());
        var all = new millrace.engine.kv.PageTable(pool);
        assertThat(all.ensure(16 * pool.pageCount())).isTrue();
        Set<Integer> pages = new java.util.HashSet<>();
        for (int i = 0; i < all.pageCount(); i++) {
            assertThat(pages.add(all.page(i))).isTrue();
        }
        all.release();
    }

    static GenerationRequest greedy(String id, List<Integer> prompt, int maxNewTokens) {
        return GenerationRequest.greedy(id, new PromptInput.TokenIds(prompt), maxNewTokens);
    }

    static GenerationRequest request(
            String id, List<Integer> prompt, int maxNewTokens, int priority, long deadlineMs, String salt) {
        return new GenerationRequest(
                id, new PromptInput.TokenIds(prompt), Sampling.GREEDY, maxNewTokens, List.of(), deadlineMs, priority, salt);
    }

    /// That many letters that follow from the seed.
    static List<Integer> ids(int seed, int count) {
        return new SplittableRandom(seed).ints(count, 0, 60).boxed().toList();
    }

    static List<Integer> join(List<Integer> first, List<Integer> second) {
        List<Integer> all = new ArrayList<>(first);
        all.addAll(second);
        return Collections.unmodifiableList(all);
    }

    /// The completion by its definition: one token after the other, nothing cached, nobody else there.
    static List<Integer> expected(GenerationRequest request) {
        List<Integer> tokens = new ArrayList<>(((PromptInput.TokenIds) request.input()).ids());
        int prompt = tokens.size();
        var sampler = new Sampler(FakeModel.VOCAB);
        var text = new StopStrings(request.stop());
        var decoder = new IncrementalDecoder(new FakeTokenizer());
        for (int step = 0; step < request.maxNewTokens(); step++) {
            int[] all = tokens.stream().mapToInt(i -> i).toArray();
            int token = sampler.choose(FakeModel.logitsAfter(tokens), 0, request.sampling(), all, all.length, step);
            tokens.add(token);
            if (token == FakeTokenizer.END) {
                break;
            }
            text.append(decoder.append(token));
            if (text.stopped()) {
                break;
            }
        }
        return List.copyOf(tokens.subList(prompt, tokens.size()));
    }

    /// The log probabilities of the completion by its definition; none where the request wants none.
    static List<TokenLogprob> expectedLogprobs(GenerationRequest request) {
        if (request.logprobs() < 0) {
            return List.of();
        }
        List<Integer> tokens = new ArrayList<>(((PromptInput.TokenIds) request.input()).ids());
        var logprobs = new LogProbabilities(FakeModel.VOCAB, request.logprobs());
        for (int token : expected(request)) {
            logprobs.add(FakeModel.logitsAfter(tokens), 0, token);
            tokens.add(token);
        }
        return logprobs.values();
    }

    private static int[] tokens(GenerationRequest request) {
        return ((PromptInput.TokenIds) request.input()).ids().stream().mapToInt(i -> i).toArray();
    }

    static final class Clock implements StepClock {
        long nanos;
        long epochMs;

        void advance(long ms) {
            nanos += ms * 1_000_000;
            epochMs += ms;
        }

        @Override
        public long nanos() {
            return nanos;
        }

        @Override
        public long epochMs() {
            return epochMs;
        }
    }
}

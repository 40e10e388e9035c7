package millrace.engine.batch;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import millrace.engine.DeviceException;
import millrace.engine.EngineStats;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.ResponseFormat;
import millrace.engine.ScoreListener;
import millrace.engine.Speculation;
import millrace.engine.TraceListener;
import millrace.engine.guide.Guide;
import millrace.engine.guide.GuideEngine;
import millrace.engine.guide.GuideRun;
import millrace.engine.kv.PagePool;
import millrace.engine.kv.PrefixIndex;
import millrace.engine.sampling.Sampler;
import millrace.engine.tokenizer.Reasoning;
import org.jspecify.annotations.Nullable;

/// The only loop in the house: one thread that takes what was submitted and runs step after step.
///
/// Submitting never blocks: requests go through a lock-free queue and the thread is woken. All listeners are called on
/// this thread. An exception inside a step ends everything under way with `ENGINE_FAILED`, and so does everything
/// submitted later: after it nothing that the pages hold can be trusted.
public final class BatchLoop implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(BatchLoop.class.getName());
    private static final String FAILED = "ENGINE_FAILED";
    private static final String THREAD = "millrace-engine";

    /// How long the thread sleeps while nothing may be started.
    private static final long HELD_NANOS = 1_000_000;

    /// How long it sleeps between looks at sealed pages while nothing is under way.
    private static final long WALK_NANOS = 250_000_000;

    /// How often [#close] looks whether the step that it waits for was given up.
    private static final long JOIN_MS = 100;

    private final Scheduler scheduler;
    private final StepModel model;
    private final PagePool pool;
    private final Vocabulary vocabulary;
    private final Sampler sampler;
    private final GuideEngine guides;
    private final StepClock clock;
    private final IntegrityLedger ledger;
    private final WeightWatch watch;
    private final LogitsCheck logitsCheck;
    private final int logitsEvery;
    private final boolean activations;
    private final ConcurrentLinkedQueue<Sequence> inbox = new ConcurrentLinkedQueue<>();
    private final Canary canary;
    private final AtomicInteger load = new AtomicInteger();
    private final StepWatchdog watchdog;
    private final Thread thread;
    private int repairsSeen;
    private volatile boolean closed;
    private volatile @Nullable String failure;

    /// Starts the thread.
    public BatchLoop(
            StepModel model,
            PagePool pool,
            Vocabulary vocabulary,
            StepClock clock,
            Limits limits,
            Checks checks) {
        this.model = model;
        watch = checks.watch();
        ledger = checks.ledger();
        logitsEvery = checks.config().logitsEvery();
        activations = checks.config().activations();
        logitsCheck = new LogitsCheck(
                model.vocabSize(), checks.config().isOff() ? Float.MAX_VALUE : model.logitBound(), model.facts(),
                model::forEach);
        this.vocabulary = vocabulary;
        this.clock = clock;
        sampler = new Sampler(model.vocabSize());
        guides = new GuideEngine(vocabulary.tokenizer(), model.vocabSize(), vocabulary.stopTokens(), vocabulary.calls());
        this.pool = pool;
        scheduler = new Scheduler(model, pool, clock, limits, checks);
        canary = new Canary(checks, clock, model.vocabSize(), scheduler::submit, this::probe, scheduler::inspect);
        watchdog = new StepWatchdog(ledger, clock::nanos, checks.config().stepTimeout());
        thread = Thread.ofPlatform().daemon().name(THREAD).unstarted(this::run);
        thread.start();
        watchdog.start();
    }

    /// Bounds of one step, and how fast who waits gains rank.
    ///
    /// @param maxBatch sequences that run at once
    /// @param prefillChunk rows of prompts in a step, beside those that decode
    /// @param maxLogitRows rows of a step that get logits
    /// @param agingMs a sequence gains one step of priority each time so many milliseconds have passed; 0 never
    /// @param speculation of a model that can draft, whose pages have a draft layer; else off
    public record Limits(
            int maxBatch, int prefillChunk, int maxLogitRows, long agingMs, Speculation speculation) {
        public Limits {
            int least = maxBatch * (1 + speculation.drafts());
            if (maxBatch < 1 || prefillChunk < 1 || maxLogitRows < least) {
                throw new IllegalArgumentException("scheduler: expected maxBatch and prefillChunk of at least 1 and " + least
                        + " rows with logits, got " + maxBatch + ", " + prefillChunk + " and " + maxLogitRows + " rows");
            }
        }

        /// Without drafts.
        public Limits(int maxBatch, int prefillChunk, int maxLogitRows, long agingMs) {
            this(maxBatch, prefillChunk, maxLogitRows, agingMs, Speculation.OFF);
        }

        /// The most rows of a step, and of what feeds a draft layer.
        public int maxRows() {
            return maxBatch * (1 + speculation.drafts()) + prefillChunk;
        }
    }

    /// Whether completions can be held to a form.
    ///
    /// @throws millrace.engine.InvalidRequestException GUIDE_SCHEMA, GUIDE_UNSUPPORTED, GUIDE_UNSATISFIABLE, GUIDE_LIMIT
    public void check(ResponseFormat format) {
        guides.guide(format);
    }

    public Generation generate(PreparedPrompt prompt, GenerationListener listener) {
        return generate(prompt, Reasoning.NONE, listener);
    }

    /// @param reasoning what comes before a document, where the request asks for one
    public Generation generate(PreparedPrompt prompt, Reasoning reasoning, GenerationListener listener) {
        return submit(sequence(
                prompt.request(), prompt.ids(), reasoning, logitsEvery, listener, load::decrementAndGet));
    }

    private Sequence sequence(
            GenerationRequest request,
            int[] ids,
            Reasoning reasoning,
            int digestEvery,
            GenerationListener listener,
            Runnable onEnd) {
        var work = new GenerationWork(
                request, sampler, begin(request, reasoning), logitsCheck, digestEvery, newActivations(),
                vocabulary, listener, clock, onEnd);
        return new Sequence(
                request.id(),
                ids,
                request.maxNewTokens(),
                request.priority(),
                request.deadlineMs(),
                request.cacheSalt(),
                clock.nanos(),
                work);
    }

    /// A golden prompt: it is no load, and all of its logits are digested.
    private Sequence probe(GenerationRequest request, Consumer<GenerationResult> onEnd) {
        int[] ids = ((PromptInput.TokenIds) request.input()).ids().stream().mapToInt(Integer::intValue).toArray();
        return sequence(request, ids, Reasoning.NONE, request.maxNewTokens(), onEnd::accept, () -> {});
    }

    /// Begins a document of the form that a request asks for, once it runs; null for any text.
    private @Nullable Supplier<GuideRun> begin(GenerationRequest request, Reasoning reasoning) {
        Guide guide = guides.guide(request.format());
        return guide == null ? null : () -> guides.start(guide, reasoning);
    }

    /// @param all logits of every position, else of the last
    public Generation score(String id, int[] ids, boolean all, boolean drafts, ScoreListener listener) {
        var work = new ScoringWork(all, drafts, logitsCheck, listener, load::decrementAndGet);
        return submit(new Sequence(id, ids, 0, 0, Long.MAX_VALUE, "", clock.nanos(), work));
    }

    /// Follows an answer.
    ///
    /// @param answer at least one token
    /// @param reasoning as in [#generate]
    public Generation trace(PreparedPrompt prompt, int[] answer, Reasoning reasoning, TraceListener listener) {
        GenerationRequest request = prompt.request();
        var work = new TraceWork(request, prompt.ids(), answer, sampler, begin(request, reasoning), logitsCheck, newActivations(), vocabulary, listener,
                load::decrementAndGet);
        var sequence = new Sequence(request.id(), work.computed(), 0, request.priority(), Long.MAX_VALUE, request.cacheSalt(),
                clock.nanos(), work);
        sequence.delivered = work.unwanted();
        return submit(sequence);
    }

    private Activations newActivations() {
        return activations ? new Activations(model) : Activations.NONE;
    }

    private Generation submit(Sequence sequence) {
        if (closed) {
            throw new IllegalStateException("engine: expected an open engine, got one that was closed");
        }
        load.incrementAndGet();
        inbox.add(sequence);
        LockSupport.unpark(thread);
        return () -> {
            sequence.cancel();
            LockSupport.unpark(thread);
        };
    }

    /// Makes the thread look around, should it sleep.
    public void wake() {
        LockSupport.unpark(thread);
    }

    /// Submitted and not yet ended.
    public int load() {
        return load.get();
    }

    /// What was done so far; each figure is current, and they need not be of the same step.
    public EngineStats stats() {
        PrefixIndex index = pool.index();
        return new EngineStats(
                scheduler.steps(),
                scheduler.preemptions(),
                pool.pageCount(),
                pool.freePages(),
                index == null ? 0 : index.pages(),
                index == null ? 0 : index.hitTokens(),
                index == null ? 0 : index.evictions(),
                scheduler.drafts());
    }

    /// Why the loop takes no more work, or null.
    public @Nullable String failure() {
        String reason = failure;
        return reason == null ? ledger.refusal() : reason;
    }

    private void run() {
        while (!closed) {
            watchdog.begin(watch.damaged());
            drainInbox();
            if (failure() == null) {
                repairWeights();
                askCanary();
            }
            if (scheduler.idle()) {
                rest();
                continue;
            }
            String reason = failure();
            if (reason == null) {
                step();
            } else {
                scheduler.failAll(FAILED, reason);
            }
            watchdog.end();
        }
        watchdog.end();
    }

    /// Nothing is under way: sleeps until somebody wakes it, a golden prompt is due, or sealed pages may be looked at.
    private void rest() {
        if (failure() == null) {
            walk();
        }
        watchdog.end();
        if (!inbox.isEmpty() || watch.damaged() || closed) {
            return;
        }
        long nanos = failure() != null ? Long.MAX_VALUE : canary.nanosToNext();
        if (scheduler.watchesPages()) {
            nanos = Math.min(nanos, WALK_NANOS);
        }
        LockSupport.parkNanos(this, nanos);
    }

    private void walk() {
        try {
            scheduler.walk();
        } catch (RuntimeException | Error e) {
            fail("a look at the KV cache", e);
        }
    }

    private void askCanary() {
        try {
            if (scheduler.repairs() != repairsSeen) {
                repairsSeen = scheduler.repairs();
                canary.runSoon();
            }
            long from = canary.poll();
            if (from != IntegrityEvent.NO_STEP) {
                scheduler.distrust(from);
            }
        } catch (RuntimeException | Error e) {
            fail("the golden prompt", e);
        }
    }

    /// Has damaged weights repaired; everything under way is then computed again as far as it came of steps in doubt. The
    /// bits are those of a run without the fault.
    private void repairWeights() {
        if (!watch.damaged()) {
            return;
        }
        try {
            long from = ledger.doubtedFrom();
            String reason = watch.repair();
            if (reason != null) {
                ledger.refuse(reason);
            } else {
                from = Math.min(from, ledger.doubtedFrom());
                scheduler.distrust(from == IntegrityEvent.NO_STEP ? 1 : from);
                watch.resume();
                canary.runAll("repair");
            }
        } catch (RuntimeException | Error e) {
            fail("a repair", e);
        }
    }

    private void drainInbox() {
        for (Sequence next = inbox.poll(); next != null; next = inbox.poll()) {
            scheduler.submit(next);
        }
    }

    private void step() {
        try {
            boolean computed = scheduler.step();
            scheduler.walk();
            if (!computed && !ledger.admitting()) {
                LockSupport.parkNanos(this, HELD_NANOS);
            }
        } catch (RuntimeException | Error e) {
            fail("a step", e);
        }
    }

    // At the bottom of the thread: nobody else could tell those who wait.
    private void fail(String what, Throwable e) {
        String reason = "engine: " + what + " failed with " + e + "; restart the process, and report this if it returns";
        // Before anybody hears of the end, so that whoever does can read why.
        if (e instanceof DeviceException device) {
            ledger.post(IntegrityEvent.Kind.DEVICE, IntegrityEvent.Result.REFUSED, device.code(), words(device));
        } else {
            ledger.post(IntegrityEvent.Kind.COMPUTE, IntegrityEvent.Result.REFUSED, FAILED,
                    "step=" + ledger.step() + " during=" + what.replace(' ', '_') + " error=" + e.getClass().getName());
        }
        failure = reason;
        LOG.log(System.Logger.Level.ERROR, reason, e);
        scheduler.failAll(FAILED, reason);
    }

    private static String words(DeviceException device) {
        String last = device.kernel().isEmpty() ? "" : " kernel=" + device.kernel().replace(' ', '_');
        return "result=" + device.result() + " name=" + device.resultName() + last + " sticky=" + device.sticky();
    }

    /// Whether a step was given up, as one that never ends: what it reads and writes must stay where it is.
    public boolean hung() {
        return watchdog.hung();
    }

    /// Stops the thread after the step it is in and waits for it, unless that step is given up. What has not ended gets no
    /// event.
    @Override
    public void close() {
        if (Thread.currentThread() == thread) {
            throw new IllegalStateException("engine: close was called by a listener; close it from another thread");
        }
        closed = true;
        LockSupport.unpark(thread);
        boolean interrupted = false;
        while (thread.isAlive() && !hung()) {
            try {
                thread.join(JOIN_MS);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        watchdog.close();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}

package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import millrace.engine.FinishReason;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.Sampling;
import millrace.engine.Timings;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import millrace.engine.guide.GuideRun;
import millrace.engine.sampling.LogProbabilities;
import millrace.engine.sampling.Sampler;
import millrace.engine.tokenizer.IncrementalDecoder;
import org.jspecify.annotations.Nullable;

/// Completes a prompt: one sampled token a step, its text, and the end.
final class GenerationWork implements Work {
    private static final System.Logger LOG = System.getLogger(GenerationWork.class.getName());

    private final GenerationRequest request;
    private final Choice choice;
    private final LogitsCheck check;
    private final LogitsDigests digests;
    private final Activations activations;

    /// null where the request wants none: then nothing is spent on them.
    private final @Nullable LogProbabilities logprobs;

    private final Vocabulary vocabulary;
    private final GenerationListener listener;
    private final StepClock clock;
    private final Runnable onEnd;
    private IncrementalDecoder decoder;
    private StopStrings text;

    /// @param begin begins a document of the form that the request asks for; null for any text
    /// @param logitsEvery tokens of a digest of logits; 0 for none
    /// @param activations collects what activation proofs are made of
    /// @param onEnd run before the listener hears of the end
    GenerationWork(
            GenerationRequest request,
            Sampler sampler,
            @Nullable Supplier<GuideRun> begin,
            LogitsCheck check,
            int logitsEvery,
            Activations activations,
            Vocabulary vocabulary,
            GenerationListener listener,
            StepClock clock,
            Runnable onEnd) {
        this.request = request;
        choice = new Choice(sampler, request.sampling(), begin);
        this.check = check;
        digests = new LogitsDigests(check.rowBytes(), logitsEvery, request.maxNewTokens());
        this.activations = activations;
        logprobs = request.logprobs() < 0 ? null : new LogProbabilities(check.vocabSize(), request.logprobs());
        this.vocabulary = vocabulary;
        decoder = new IncrementalDecoder(vocabulary.tokenizer());
        text = new StopStrings(request.stop());
        this.listener = listener;
        this.clock = clock;
        this.onEnd = onEnd;
    }

    /// Without a form and activations.
    GenerationWork(
            GenerationRequest request,
            Sampler sampler,
            LogitsCheck check,
            int logitsEvery,
            Vocabulary vocabulary,
            GenerationListener listener,
            StepClock clock,
            Runnable onEnd) {
        this(request, sampler, null, check, logitsEvery, Activations.NONE, vocabulary, listener, clock, onEnd);
    }

    @Override
    public StepPlan.Logits wanted() {
        return StepPlan.Logits.LAST;
    }

    @Override
    public @Nullable Sampling drawn() {
        return logprobs == null && !choice.guided() ? request.sampling() : null;
    }

    @Override
    public Outcome accept(Sequence sequence, int position, float[] logits, int offset) {
        String problem = check.problem(logits, offset, digests.every() > 0);
        if (problem != null) {
            sequence.problem = problem;
            return Outcome.UNSOUND;
        }
        int token = check.drawn();
        if (token == Choice.NONE) {
            check.bring();
            token = choice.choose(
                    logits, offset, check.best(), sequence.tokens(), sequence.length(), sequence.generated());
        }
        if (token == Choice.NONE) {
            return failed(sequence);
        }
        digests.add(check.checksum());
        activations.add(offset);
        if (logprobs != null) {
            logprobs.add(logits, offset, token);
        }
        sequence.append(token);
        sequence.lastTokenNanos = clock.nanos();
        if (sequence.firstTokenNanos < 0) {
            sequence.firstTokenNanos = sequence.lastTokenNanos;
        }
        if (vocabulary.ends(token)) {
            return Outcome.STOP;
        }
        if (!choice.take(token)) {
            return failed(sequence);
        }
        emit(sequence, text.append(decoder.append(token)));
        if (text.stopped() || choice.closed()) {
            return Outcome.STOP;
        }
        return sequence.generated() == request.maxNewTokens() ? Outcome.LENGTH : Outcome.CONTINUE;
    }

    @Override
    public int draft(Sequence sequence, int drafts, float[] logits, int offset, int known) {
        return choice.draft(
                logits, offset, known, sequence.tokens(), sequence.length(), drafts, sequence.generated());
    }

    private Outcome failed(Sequence sequence) {
        sequence.code = choice.code();
        sequence.problem = choice.problem();
        return Outcome.FAILED;
    }

    /// Reads the tokens that are left from the beginning; the listener hears their text as one delta.
    @Override
    public boolean restart(Sequence sequence) {
        // Each can go back to tokens of its own only, so they take turns until they agree.
        int kept = sequence.generated();
        int before;
        do {
            before = kept;
            kept = digests.keep(activations.keep(before));
        } while (kept != before);
        sequence.keep(kept);
        if (logprobs != null) {
            logprobs.keep(kept);
        }
        decoder = new IncrementalDecoder(vocabulary.tokenizer());
        text = new StopStrings(request.stop());
        choice.restart(sequence);
        call(sequence, GenerationListener::onRestart);
        StringBuilder heard = new StringBuilder();
        for (int i = sequence.promptLength; i < sequence.length(); i++) {
            heard.append(text.append(decoder.append(sequence.tokens()[i])));
        }
        emit(sequence, heard.toString());
        return true;
    }

    @Override
    public void end(Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
        emit(sequence, text.append(decoder.flush()));
        emit(sequence, text.finish());
        GenerationResult result = new GenerationResult(
                text.text(),
                generated(sequence),
                reason,
                new Usage(sequence.promptLength, sequence.generated(), sequence.cachedPromptTokens),
                timings(sequence),
                errorCode,
                errorMessage,
                new Transcript(
                        sequence.maxBatch,
                        sequence.numericGuard,
                        sequence.productsChecked,
                        sequence.recomputedSteps,
                        sequence.lastStep(),
                        sequence.pagesVerified,
                        sequence.pagesDamaged,
                        digests.every(),
                        digests.values(),
                        activations.values()),
                logprobs == null ? List.of() : logprobs.values());
        onEnd.run();
        call(sequence, l -> l.onEnd(result));
    }

    private void emit(Sequence sequence, String delta) {
        if (!delta.isEmpty()) {
            call(sequence, l -> l.onDelta(delta, sequence.generated()));
        }
    }

    /// A listener that throws loses its own generation and nobody else's.
    private void call(Sequence sequence, Consumer<GenerationListener> event) {
        try {
            event.accept(listener);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "listener of generation " + sequence.id + " failed; cancelling it", e);
            sequence.cancel();
        }
    }

    private static List<Integer> generated(Sequence sequence) {
        List<Integer> ids = new ArrayList<>(sequence.generated());
        for (int i = sequence.promptLength; i < sequence.length(); i++) {
            ids.add(sequence.tokens()[i]);
        }
        return ids;
    }

    private Timings timings(Sequence sequence) {
        long queuedUntil = sequence.firstStepNanos < 0 ? clock.nanos() : sequence.firstStepNanos;
        long queued = queuedUntil - sequence.submittedNanos;
        if (sequence.firstTokenNanos < 0) {
            return new Timings(queued, 0, 0);
        }
        return new Timings(
                queued,
                sequence.firstTokenNanos - sequence.submittedNanos,
                sequence.lastTokenNanos - sequence.firstTokenNanos);
    }
}

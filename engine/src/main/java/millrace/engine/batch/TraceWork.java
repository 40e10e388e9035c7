package millrace.engine.batch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.Trace;
import millrace.engine.TraceListener;
import millrace.engine.guide.GuideRun;
import millrace.engine.sampling.ChoiceGap;
import millrace.engine.sampling.Sampler;
import millrace.engine.tokenizer.IncrementalDecoder;
import org.jspecify.annotations.Nullable;

/// Follows an answer that is there already. Its tokens are known, so they run in chunks like those of a prompt, and every
/// step's logits are met by what was taken there.
final class TraceWork implements Work {
    private static final System.Logger LOG = System.getLogger(TraceWork.class.getName());

    private final GenerationRequest request;
    private final int[] prompt;
    private final int[] answer;
    private final int[] tokens;
    private final Choice choice;
    private final LogitsCheck check;
    private final Activations activations;
    private final Vocabulary vocabulary;
    private final TraceListener listener;
    private final Runnable onEnd;
    private final List<Trace.Departure> departures = new ArrayList<>();
    private IncrementalDecoder decoder;
    private StopStrings text;
    private int steps;

    /// @param answer at least one token
    /// @param begin begins a document of the form that the request asks for; null for any text
    /// @param activations collects what activation proofs are made of
    /// @param onEnd run before the listener hears of the end
    TraceWork(
            GenerationRequest request,
            int[] prompt,
            int[] answer,
            Sampler sampler,
            @Nullable Supplier<GuideRun> begin,
            LogitsCheck check,
            Activations activations,
            Vocabulary vocabulary,
            TraceListener listener,
            Runnable onEnd) {
        this.request = request;
        this.prompt = prompt;
        this.answer = answer;
        tokens = Arrays.copyOf(prompt, prompt.length + answer.length);
        System.arraycopy(answer, 0, tokens, prompt.length, answer.length);
        choice = new Choice(sampler, request.sampling(), begin);
        this.check = check;
        this.activations = activations;
        this.vocabulary = vocabulary;
        this.listener = listener;
        this.onEnd = onEnd;
        decoder = new IncrementalDecoder(vocabulary.tokenizer());
        text = new StopStrings(request.stop());
    }

    /// What the sequence computes: all but the last token, from which nothing was chosen.
    int[] computed() {
        return Arrays.copyOf(tokens, tokens.length - 1);
    }

    /// Positions whose logits nobody wants: those that give the prompt's own tokens.
    int unwanted() {
        return prompt.length - 1;
    }

    @Override
    public StepPlan.Logits wanted() {
        return StepPlan.Logits.ALL;
    }

    @Override
    public Outcome accept(Sequence sequence, int position, float[] logits, int offset) {
        String problem = check.problem(logits, offset, false);
        if (problem != null) {
            sequence.problem = problem;
            return Outcome.UNSOUND;
        }
        int step = position - unwanted();
        int taken = answer[step];
        int length = position + 1;
        int chosen = choice.choose(logits, offset, check.best(), tokens, length, step);
        if (chosen != taken) {
            departures.add(new Trace.Departure(
                    step, taken, chosen, gap(logits, offset, length, step, taken), largest(logits, offset)));
        }
        activations.add(offset);
        steps = step + 1;
        if (vocabulary.ends(taken)) {
            return Outcome.STOP;
        }
        choice.take(taken);
        text.append(decoder.append(taken));
        if (text.stopped() || choice.closed()) {
            return Outcome.STOP;
        }
        return steps == answer.length ? Outcome.LENGTH : Outcome.CONTINUE;
    }

    /// No logits whatever let a token be chosen that the form forbids.
    private double gap(float[] logits, int offset, int length, int step, int taken) {
        float[] masked = choice.masked(logits, offset);
        if (choice.guided() && (masked == null || masked[taken] == Float.NEGATIVE_INFINITY)) {
            return Double.POSITIVE_INFINITY;
        }
        return masked == null
                ? ChoiceGap.of(logits, offset, check.vocabSize(), request.sampling(), tokens, length, step, taken)
                : ChoiceGap.of(masked, 0, check.vocabSize(), request.sampling(), tokens, length, step, taken);
    }

    private double largest(float[] logits, int offset) {
        float most = 0;
        for (int i = 0; i < check.vocabSize(); i++) {
            most = Math.max(most, Math.abs(logits[offset + i]));
        }
        return most;
    }

    /// Nobody has heard of it yet: it begins anew.
    @Override
    public boolean restart(Sequence sequence) {
        activations.keep(0);
        departures.clear();
        decoder = new IncrementalDecoder(vocabulary.tokenizer());
        text = new StopStrings(request.stop());
        steps = 0;
        choice.restart();
        sequence.delivered = unwanted();
        return true;
    }

    @Override
    public void end(Sequence sequence, FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
        text.append(decoder.flush());
        text.finish();
        boolean cut = reason == FinishReason.LENGTH && steps < request.maxNewTokens();
        Trace trace = new Trace(steps, departures, text.text(), cut ? FinishReason.DEADLINE : reason, activations.values(),
                errorCode, errorMessage);
        onEnd.run();
        try {
            listener.onEnd(trace);
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "listener of trace " + sequence.id + " failed", e);
        }
    }
}

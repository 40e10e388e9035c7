package millrace.engine.batch;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.Golden;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import org.jspecify.annotations.Nullable;

/// Prompts whose answers are known, computed beside the traffic by the same scheduler and in the same steps.
///
/// ```
///  after the load, after a repair of weights     all goldens, before anything else is admitted
///  every interval, after a repair of KV pages    the shortest, at the lowest rank
///  mismatch    admission stops, steps since the last good run are in doubt, weights and pages are looked at, all run again
///  mismatch again                                the engine refuses
/// ```
///
/// A short golden is its own: its first answer is what later ones must be. Those that came with the model say at the load
/// that what is computed is right; where there are none, only what changes after the load is found. Of every golden the digests
/// of the logits are compared too, as soon as one run has passed, so one wrong bit is enough.
///
/// Used by the loop's thread alone.
final class Canary {
    static final String FAILED = "CANARY_FAIL";

    /// Below all prompts; aging lets it through in the end.
    private static final int PRIORITY = -10;

    private static final int OWN_PROMPT = 6;
    private static final int OWN_TOKENS = 4;

    private final IntegrityLedger ledger;
    private final StepClock clock;
    private final long intervalNanos;
    private final Consumer<Sequence> submit;
    private final Probes probes;
    private final Runnable inspect;
    private final List<Trial> trials = new ArrayList<>();
    private final Trial own;
    private final List<Trial> pending = new ArrayList<>();
    private String occasion = "load";
    private long dueNanos;
    private long startedAtStep = -1;
    private long goodStep;
    private int runs;
    private int tried;
    private boolean mismatch;
    private boolean retrying;
    private @Nullable String difference;
    private IntegrityLedger.@Nullable Doubt doubt;

    /// One golden and what is known of its answer.
    private static final class Trial {
        final Golden golden;
        @Nullable String tokensSha256;
        @Nullable List<Integer> logits;

        Trial(Golden golden, boolean own) {
            this.golden = golden;
            tokensSha256 = own ? null : golden.tokensSha256();
        }
    }

    /// Makes a sequence of a golden prompt, that tells its result to somebody.
    interface Probes {
        Sequence make(GenerationRequest request, Consumer<GenerationResult> onEnd);
    }

    /// @param vocabSize of the model, for a prompt of its own
    /// @param submit takes a sequence
    /// @param inspect looks at all weights and pages
    Canary(
            Checks checks, StepClock clock, int vocabSize, Consumer<Sequence> submit, Probes probes, Runnable inspect) {
        ledger = checks.ledger();
        this.clock = clock;
        intervalNanos = checks.config().canaryInterval().toNanos();
        this.submit = submit;
        this.probes = probes;
        this.inspect = inspect;
        for (Golden golden : checks.goldens()) {
            trials.add(new Trial(golden, false));
        }
        own = new Trial(own(vocabSize), true);
        trials.add(own);
        if (isOn()) {
            runAll("load");
        }
    }

    private static Golden own(int vocabSize) {
        List<Integer> prompt = new SplittableRandom(20261130).ints(OWN_PROMPT, 0, vocabSize).boxed().toList();
        return new Golden(prompt, OWN_TOKENS, "", "", "", "");
    }

    private boolean isOn() {
        return intervalNanos > 0;
    }

    /// Runs every golden before anything else is admitted.
    ///
    /// @param why for the event: `load`, `repair`
    void runAll(String why) {
        if (isOn()) {
            ledger.hold(this);
            run(trials, why);
        }
    }

    /// Lets one golden run soon, beside the traffic.
    void runSoon() {
        dueNanos = clock.nanos();
    }

    private void run(Collection<Trial> which, String why) {
        occasion = why;
        mismatch = false;
        difference = null;
        pending.clear();
        pending.addAll(which);
        tried = which.size();
        startedAtStep = ledger.step();
        runs++;
        int run = runs;
        for (Trial trial : which) {
            // A salt of its own: nothing that it reads was computed by an earlier run.
            var request = new GenerationRequest(
                    "canary-" + run, new PromptInput.TokenIds(trial.golden.promptIds()), Sampling.GREEDY,
                    trial.golden.maxTokens(), List.of(), Long.MAX_VALUE, PRIORITY, "\0canary-" + run);
            Sequence sequence = probes.make(request, result -> ended(run, trial, result));
            sequence.probe = true;
            submit.accept(sequence);
        }
    }

    private void ended(int run, Trial trial, GenerationResult result) {
        if (run != runs || !pending.remove(trial)) {
            return;
        }
        String wrong = compare(trial, result);
        if (wrong != null) {
            mismatch = true;
            difference = wrong;
        }
    }

    private static @Nullable String compare(Trial trial, GenerationResult result) {
        if (result.reason() != FinishReason.STOP && result.reason() != FinishReason.LENGTH) {
            return "end=" + result.reason() + (result.errorCode() == null ? "" : " error=" + result.errorCode());
        }
        String tokens = Golden.digest(result.tokenIds());
        List<Integer> logits = result.transcript().logitsDigests();
        if (trial.tokensSha256 != null && !trial.tokensSha256.equals(tokens)) {
            return "differs=tokens";
        }
        if (trial.logits != null && !trial.logits.equals(logits)) {
            return "differs=logits";
        }
        trial.tokensSha256 = tokens;
        trial.logits = logits;
        return null;
    }

    /// Between two steps: starts what is due, judges what has ended.
    ///
    /// @return the first step whose results are in doubt since a golden differed, [IntegrityEvent#NO_STEP] else
    long poll() {
        if (!isOn()) {
            return IntegrityEvent.NO_STEP;
        }
        if (pending.isEmpty() && startedAtStep >= 0) {
            return judge();
        }
        if (pending.isEmpty() && clock.nanos() - dueNanos >= 0) {
            run(List.of(own), "timer");
        }
        return IntegrityEvent.NO_STEP;
    }

    private long judge() {
        long began = startedAtStep;
        startedAtStep = -1;
        dueNanos = clock.nanos() + intervalNanos;
        if (!mismatch) {
            passed(began);
            return IntegrityEvent.NO_STEP;
        }
        long from = goodStep + 1;
        if (retrying) {
            String reason = "engine: the golden prompt was answered otherwise than before, also after all weights and pages "
                    + "were looked at (" + difference + "); restart, and replace this machine if it returns";
            ledger.post(IntegrityEvent.Kind.CANARY, IntegrityEvent.Result.REFUSED, FAILED, detail(), from);
            ledger.refuse(reason);
            return IntegrityEvent.NO_STEP;
        }
        retrying = true;
        doubt = ledger.doubt(from);
        ledger.hold(this);
        inspect.run();
        run(trials, "again");
        return from;
    }

    private void passed(long began) {
        ledger.canaryPassed();
        if (retrying) {
            ledger.post(IntegrityEvent.Kind.CANARY, IntegrityEvent.Result.REPAIRED, FAILED, detail(), goodStep + 1);
            retrying = false;
        } else {
            ledger.post(IntegrityEvent.Kind.CANARY, IntegrityEvent.Result.PASSED, "", detail());
        }
        if (doubt != null) {
            doubt.end();
            doubt = null;
        }
        goodStep = began;
        ledger.release(this);
    }

    private String detail() {
        return "at=" + occasion + " golden=" + (trials.size() == 1 ? "self" : "model") + " prompts=" + tried
                + (difference == null ? "" : " " + difference) + " step=" + ledger.step();
    }

    /// Nanoseconds until something is due; a loop with nothing to do may sleep so long.
    long nanosToNext() {
        return isOn() ? Math.max(1, dueNanos - clock.nanos()) : Long.MAX_VALUE;
    }
}

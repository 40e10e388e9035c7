package millrace.streams.simulation;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.Device;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.IntegrityState;
import millrace.engine.InvalidRequestException;
import millrace.engine.MemoryPlan;
import millrace.engine.ModelCard;
import millrace.engine.ModelTrust;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.Speculation;
import millrace.engine.TextEngine;
import millrace.engine.Timings;
import millrace.engine.TokenLogprob;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import org.jspecify.annotations.Nullable;

/// An engine whose steps the simulation takes. Its answer is a pure function of prompt and sampling, as long as nothing
/// in it is damaged.
final class SimulatedEngine implements TextEngine {
    static final String NAME = "simulated";
    /// What an answer of damaged weights begins with.
    static final String RUBBISH = "rubbish ";
    private static final int LONG_ANSWER = 4_000;

    /// What may happen to one prompt inside the engine.
    enum Mishap {
        NONE,
        /// It never ends in this life.
        HANGS,
        NOT_A_NUMBER,
        OUT_OF_MEMORY,
        /// A KV page of it is found damaged and computed again.
        PAGE_DAMAGED
    }

    private static final class Job {
        final PreparedPrompt prompt;
        final GenerationListener listener;
        Mishap mishap = Mishap.NONE;
        int recomputed;
        boolean cancelled;

        Job(PreparedPrompt prompt, GenerationListener listener) {
            this.prompt = prompt;
            this.listener = listener;
        }
    }

    private final List<Job> jobs = new ArrayList<>();
    private final IntegrityLedger ledger = new IntegrityLedger(() -> 0);
    private final boolean trustsAll;
    private final boolean hidesFaults;
    private final long seedShift;
    private long steps;
    private long soundUntil;
    private boolean damaged;
    private IntegrityLedger.@Nullable Doubt doubt;
    private long doubtFrom;
    private @Nullable String failure;

    /// @param life how many engines there were before it
    SimulatedEngine(Bug bug, int life) {
        trustsAll = bug == Bug.TRUSTS_EVERY_RESULT;
        hidesFaults = bug == Bug.HIDES_FAULTS;
        seedShift = bug == Bug.DRAWS_ANOTHER_SEED_AFTER_RESTART ? life : 0;
    }

    @Override
    public ModelCard card() {
        return new ModelCard(NAME, "Simulated", "sha256:" + "ab".repeat(32), List.of(), "cd".repeat(32), "ef".repeat(32), "none",
                0, 256, 1 << 16, "none", "simulated", "bf16", "bf16", 0, 0, 0, MemoryPlan.NONE, "1.0 " + "12".repeat(32),
                "simulated/v1", ModelTrust.OFF, "", Device.PROCESSOR, Speculation.OFF);
    }

    @Override
    public PreparedPrompt prepare(GenerationRequest request) {
        String text = switch (request.input()) {
            case PromptInput.Text raw -> raw.text();
            case PromptInput.Messages chat -> chat.messages().getLast().content();
            case PromptInput.TokenIds ids -> ids.ids().toString();
        };
        if (text.isBlank()) {
            throw new InvalidRequestException("PROMPT_EMPTY", "prompt: expected at least one token, got none");
        }
        if (!(request.sampling().temperature() >= 0)) {
            throw new InvalidRequestException("PARAM_RANGE", "temperature: expected 0 to 10, got another value");
        }
        return new PreparedPrompt(request, text, new int[text.getBytes(StandardCharsets.UTF_8).length]);
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        Job job = new Job(prompt, listener);
        if (failure == null) {
            jobs.add(job);
        } else {
            listener.onEnd(failed(prompt, "ENGINE_FAILED", "the engine takes no more work"));
        }
        return () -> job.cancelled = true;
    }

    @Override
    public int load() {
        return jobs.size();
    }

    @Override
    public @Nullable String failure() {
        return failure;
    }

    @Override
    public IntegrityState integrity() {
        return ledger.state();
    }

    @Override
    public List<IntegrityEvent> events(long after) {
        return hidesFaults ? List.of() : ledger.events(after);
    }

    @Override
    public boolean trusts(GenerationResult result) {
        return trustsAll || ledger.trusts(result);
    }

    /// Everything that was found out in this life, for who checks.
    List<IntegrityEvent> found() {
        return ledger.events(0);
    }

    /// Takes one step, with which up to so many generations end, in any order. None is taken while damage is repaired.
    void step(SplittableRandom random, int atMost) {
        if (!ledger.admitting()) {
            return;
        }
        ledger.beginStep(++steps);
        for (int i = 0; i < atMost && !jobs.isEmpty(); i++) {
            Job job = jobs.get(random.nextInt(jobs.size()));
            if (job.mishap != Mishap.HANGS || job.cancelled) {
                jobs.remove(job);
                // One that was cancelled may still end as if nothing had been said.
                job.listener.onEnd(job.cancelled && random.nextBoolean() ? cancelled(job, random) : end(job));
            }
        }
    }

    private GenerationResult end(Job job) {
        return switch (job.mishap) {
            case NONE, HANGS -> answer(job);
            case NOT_A_NUMBER -> {
                ledger.post(Kind.COMPUTE, Result.REPAIRED, "ENGINE_NUMERIC", "row=1");
                yield failed(job.prompt, "ENGINE_NUMERIC", "logits: expected finite values, got NaN");
            }
            case OUT_OF_MEMORY -> failed(job.prompt, "OVERLOADED", "memory: expected room for one more page, got none");
            case PAGE_DAMAGED -> {
                job.recomputed++;
                ledger.post(Kind.KV_PAGE, Result.REPAIRED, "KV_SEAL", "page=3");
                yield answer(job);
            }
        };
    }

    private GenerationResult answer(Job job) {
        PreparedPrompt prompt = job.prompt;
        long seed = prompt.request().sampling().seed() + seedShift;
        String text = (damaged ? RUBBISH : "answer ") + Long.toHexString(mix(seed, prompt.text()));
        if (prompt.text().endsWith("at length")) {
            text += "-".repeat(LONG_ANSWER);
        }
        boolean mended = job.mishap == Mishap.PAGE_DAMAGED;
        Transcript transcript = new Transcript(2, true, job.recomputed, steps, 1, mended ? 1 : 0, 0, List.of());
        List<Integer> ids = List.of(7, 8, (int) (seed & 0xff));
        return new GenerationResult(text, ids, FinishReason.STOP, new Usage(prompt.ids().length, 3, 0),
                new Timings(1_000_000, 2_000_000, 3_000_000), null, null, transcript, logprobs(prompt, ids));
    }

    private static List<TokenLogprob> logprobs(PreparedPrompt prompt, List<Integer> ids) {
        int top = prompt.request().logprobs();
        List<TokenLogprob.Top> likely = IntStream.range(0, Math.max(0, top)).mapToObj(i -> new TokenLogprob.Top(i, -i - 1f)).toList();
        return top < 0 ? List.of() : ids.stream().map(id -> new TokenLogprob(id, -1 / (id + 1f), likely)).toList();
    }

    private static long mix(long seed, String text) {
        return new SplittableRandom(seed ^ (long) text.hashCode() << 32 ^ text.length()).nextLong();
    }

    private GenerationResult failed(PreparedPrompt prompt, String code, String message) {
        return new GenerationResult("", List.of(), FinishReason.FAILED, new Usage(prompt.ids().length, 0, 0), Timings.NONE, code,
                message, new Transcript(1, false, 0, steps, 0, 0, 0, List.of()));
    }

    /// What there is of the answer: its beginning, or nothing yet.
    private GenerationResult cancelled(Job job, SplittableRandom random) {
        GenerationResult whole = answer(job);
        boolean nothing = whole.text().length() > LONG_ANSWER || random.nextBoolean();
        int length = nothing ? 0 : Math.min(whole.text().length(), RUBBISH.length() + random.nextInt(8));
        List<Integer> ids = length == 0 ? List.of() : whole.tokenIds().subList(0, 1);
        return new GenerationResult(whole.text().substring(0, length), ids, FinishReason.CANCELLED,
                new Usage(job.prompt.ids().length, ids.size(), 0), whole.timings(), null, null, whole.transcript());
    }

    /// Lets something happen to one of the prompts under way.
    ///
    /// @return whether there was one
    boolean happen(Mishap mishap, SplittableRandom random) {
        if (jobs.isEmpty()) {
            return false;
        }
        jobs.get(random.nextInt(jobs.size())).mishap = mishap;
        return true;
    }

    /// Ends every hang.
    void heal() {
        jobs.stream().filter(job -> job.mishap == Mishap.HANGS).forEach(job -> job.mishap = Mishap.NONE);
    }

    /// Damages the weights: every answer from now on is wrong.
    void damage() {
        damaged = true;
    }

    /// Checks the weights: what was computed since they were last known good is in doubt if they are damaged, and no step
    /// is taken until [#mend].
    void scrub() {
        if (!damaged) {
            soundUntil = steps;
        } else if (doubt == null) {
            doubtFrom = soundUntil + 1;
            doubt = ledger.doubt(doubtFrom);
            ledger.hold(this);
        }
    }

    /// Repairs what a scrub has found.
    ///
    /// @param works whether it can be repaired; else the engine takes no more work
    void mend(boolean works) {
        IntegrityLedger.Doubt open = doubt;
        if (open == null) {
            return;
        }
        doubt = null;
        ledger.post(Kind.WEIGHT, works ? Result.REPAIRED : Result.REFUSED, "WEIGHT_CRC", "block=17", doubtFrom);
        if (works) {
            damaged = false;
            soundUntil = steps;
            jobs.forEach(job -> job.recomputed++);
            open.end();
            ledger.release(this);
        } else {
            ledger.refuse("a block of the weights could not be repaired");
            fail("a block of the weights could not be repaired");
        }
    }

    /// Ends everything under way, and all that comes, with `ENGINE_FAILED`.
    void fail(String why) {
        failure = why;
        List<Job> ended = List.copyOf(jobs);
        jobs.clear();
        ended.forEach(job -> job.listener.onEnd(failed(job.prompt, "ENGINE_FAILED", why)));
    }

    @Override
    public void close() {
        jobs.clear();
    }
}

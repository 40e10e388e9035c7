package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.Predicate;
import millrace.engine.Device;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityState;
import millrace.engine.InvalidRequestException;
import millrace.engine.MemoryPlan;
import millrace.engine.ModelCard;
import millrace.engine.ModelTrust;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.ReplyReader;
import millrace.engine.Speculation;
import millrace.engine.TextEngine;
import millrace.engine.Timings;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import org.jspecify.annotations.Nullable;

/// An engine that ends a generation when the test says so, on the test's thread. Tokens are the bytes of the text.
final class ScriptedEngine implements TextEngine {
    static final String MODEL = "scripted";
    static final String MODEL_DIGEST = "sha256:" + "ab".repeat(32);
    private static final int MAX_CONTEXT = 1 << 16;

    /// A submitted prompt.
    static final class Job {
        final PreparedPrompt prompt;
        final GenerationListener listener;
        boolean cancelled;

        private Job(PreparedPrompt prompt, GenerationListener listener) {
            this.prompt = prompt;
            this.listener = listener;
        }

        String id() {
            return prompt.request().id();
        }
    }

    /// Every prompt that was ever submitted, in order.
    final List<Job> submitted = new ArrayList<>();
    final List<Job> waiting = new ArrayList<>();
    /// What its checks found out; a test posts and changes it.
    final List<IntegrityEvent> events = new ArrayList<>();
    IntegrityState state = IntegrityState.NONE;
    Predicate<GenerationResult> distrusted = result -> false;
    Function<PreparedPrompt, ReplyReader> replies = prompt -> ReplyReader.plain();
    @Nullable String failure;
    ModelTrust trust = ModelTrust.OFF;
    String blockTable = "";
    Device device = Device.PROCESSOR;

    /// Posts an event.
    IntegrityEvent post(IntegrityEvent.Kind kind, IntegrityEvent.Result result, String code, String detail, long fromStep) {
        IntegrityEvent event = new IntegrityEvent(events.size() + 1, kind, result, code, detail, 1_800_000_000_000L, fromStep);
        events.add(event);
        return event;
    }

    /// A golden prompt that passed at this time.
    void canaryPassed(long epochMs) {
        events.add(new IntegrityEvent(events.size() + 1, IntegrityEvent.Kind.CANARY, IntegrityEvent.Result.PASSED, "", "",
                epochMs, IntegrityEvent.NO_STEP));
    }

    @Override
    public List<IntegrityEvent> events(long after) {
        return events.stream().filter(event -> event.number() > after).toList();
    }

    @Override
    public IntegrityState integrity() {
        return state;
    }

    @Override
    public boolean trusts(GenerationResult result) {
        return !distrusted.test(result);
    }

    @Override
    public @Nullable String failure() {
        return failure;
    }

    @Override
    public ModelCard card() {
        return new ModelCard(MODEL, "Scripted", MODEL_DIGEST, List.of(), "cd".repeat(32), "ef".repeat(32), "none", 0, 256,
                MAX_CONTEXT, "none", "scripted", "int4+bf16", "int8", 0, 0, 0, MemoryPlan.NONE, "1.0 " + "12".repeat(32), "scripted/v1",
                trust, blockTable, device, Speculation.OFF);
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
        return new PreparedPrompt(request, text, new int[text.getBytes(StandardCharsets.UTF_8).length]);
    }

    @Override
    public ReplyReader replies(PreparedPrompt prompt) {
        return replies.apply(prompt);
    }

    /// A letter for each token.
    @Override
    public byte[] bytes(int token) {
        return new byte[] {(byte) ('a' + token)};
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        Job job = new Job(prompt, listener);
        submitted.add(job);
        waiting.add(job);
        return () -> job.cancelled = true;
    }

    @Override
    public int load() {
        return waiting.size();
    }

    /// The ids of what was submitted, in order.
    List<String> submittedIds() {
        return submitted.stream().map(Job::id).toList();
    }

    /// Ends everything that waits, oldest first.
    void answerAll() {
        while (!waiting.isEmpty()) {
            answer(waiting.getFirst().id());
        }
    }

    /// Ends the oldest waiting prompt of this id with the answer that [#answerTo] gives.
    void answer(String id) {
        Job job = job(id);
        end(id, answerTo(job.prompt));
    }

    /// Ends a prompt that was cancelled, after so much of its answer.
    void stop(String id, String text) {
        Job job = job(id);
        assert job.cancelled : id + " was not cancelled";
        end(id, new GenerationResult(text, text.isEmpty() ? List.of() : List.of(7), FinishReason.CANCELLED,
                new Usage(job.prompt.ids().length, text.isEmpty() ? 0 : 1, 0), Timings.NONE, null, null,
                new Transcript(1, true, 0, 1, 0, 0, 0, List.of())));
    }

    void end(String id, GenerationResult result) {
        Job job = job(id);
        waiting.remove(job);
        job.listener.onEnd(result);
    }

    private Job job(String id) {
        return waiting.stream().filter(j -> j.id().equals(id)).findFirst().orElseThrow();
    }

    /// A pure function of the prompt, like a real completion.
    static GenerationResult answerTo(PreparedPrompt prompt) {
        return text(prompt, "answer to " + prompt.text());
    }

    static GenerationResult text(PreparedPrompt prompt, String text) {
        return result(prompt, text, new Transcript(2, true, 0, 1, 0, 0, 0, List.of()));
    }

    /// The answer whose last token came at this step.
    static GenerationResult atStep(PreparedPrompt prompt, long step) {
        return result(prompt, "answer to " + prompt.text(), new Transcript(2, true, 0, step, 0, 0, 0, List.of()));
    }

    static GenerationResult result(PreparedPrompt prompt, String text, Transcript transcript) {
        Usage usage = new Usage(prompt.ids().length, 3, 0);
        Timings timings = new Timings(1_000_000, 2_000_000, 3_000_000);
        return new GenerationResult(
                text, List.of(7, 8, (int) (prompt.request().sampling().seed() & 0xff)), FinishReason.STOP, usage, timings,
                null, null, transcript);
    }

    static GenerationResult failed(String code, String message) {
        return new GenerationResult("", List.of(), FinishReason.FAILED, new Usage(1, 0, 0), Timings.NONE, code, message,
                Transcript.NONE);
    }

    @Override
    public void close() {}
}

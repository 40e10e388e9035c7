package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.engine.FinishReason;
import millrace.engine.Device;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.MemoryPlan;
import millrace.engine.ModelCard;
import millrace.engine.ModelTrust;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.Speculation;
import millrace.engine.TextEngine;
import millrace.engine.Timings;
import millrace.engine.Transcript;
import millrace.engine.Usage;

/// An engine that answers at once with the prompt's own text, from a thread of its own like the real one: what is
/// measured with it is the service.
public final class NoOpEngine implements TextEngine {
    private static final String ZEROS = "0".repeat(64);

    private record Job(PreparedPrompt prompt, GenerationListener listener) {}

    private final LinkedBlockingQueue<Job> jobs = new LinkedBlockingQueue<>();
    private final AtomicInteger load = new AtomicInteger();
    private final Thread thread = new Thread(this::answer, "no-op-engine");

    public NoOpEngine() {
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public ModelCard card() {
        return new ModelCard("no-op", "NoOp", "sha256:" + ZEROS, List.of(), ZEROS, ZEROS, "none", 0, 256, 1 << 20, "none",
                "answers with the prompt", "none", "none", 0, 0, 0, MemoryPlan.NONE, "no-op " + ZEROS, "none",
                ModelTrust.OFF, "", Device.PROCESSOR, Speculation.OFF);
    }

    @Override
    public PreparedPrompt prepare(GenerationRequest request) {
        String text = switch (request.input()) {
            case PromptInput.Text raw -> raw.text();
            case PromptInput.Messages chat -> chat.messages().getLast().content();
            case PromptInput.TokenIds ids -> ids.ids().toString();
        };
        return new PreparedPrompt(request, text, new int[text.getBytes(StandardCharsets.UTF_8).length]);
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        load.incrementAndGet();
        jobs.add(new Job(prompt, listener));
        return () -> {};
    }

    @Override
    public int load() {
        return load.get();
    }

    private void answer() {
        try {
            while (!Thread.currentThread().isInterrupted()) {
                Job job = jobs.take();
                load.decrementAndGet();
                Usage usage = new Usage(job.prompt().ids().length, 1, 0);
                job.listener().onEnd(new GenerationResult(
                        job.prompt().text(), List.of(0), FinishReason.STOP, usage, Timings.NONE, null, null, Transcript.NONE));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        thread.interrupt();
    }
}

package millrace.streams.bench;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.engine.Timings;
import millrace.engine.Transcript;
import millrace.engine.Usage;

/// An engine that gives every running prompt one word at each step, a step after the other in equal time, from one thread like
/// the real one: its rate is known and costs next to no processor time, so that what is measured with it is what is around it. The
/// answer of a prompt of `n` words is `n` words. Prompts beyond its batch wait in the order in which they came.
public final class PacedEngine implements TextEngine {
    private static final class Job implements Generation {
        private final PreparedPrompt prompt;
        private final GenerationListener listener;
        private final String[] words;
        private final StringBuilder text = new StringBuilder();
        private final long submitted = System.nanoTime();
        private long begun;
        private long first;
        private int given;
        private volatile boolean cancelled;

        private Job(PreparedPrompt prompt, GenerationListener listener) {
            this.prompt = prompt;
            this.listener = listener;
            this.words = prompt.text().split(" ");
        }

        @Override
        public void cancel() {
            cancelled = true;
        }
    }

    private final NoOpEngine facts = new NoOpEngine();
    private final long stepNanos;
    private final int batch;
    private final Consumer<String> chosen;
    private final AtomicLong answered = new AtomicLong();
    private final Queue<Job> submitted = new ConcurrentLinkedQueue<>();
    private final AtomicInteger load = new AtomicInteger();
    private final Thread thread = Thread.ofPlatform().name("paced-engine").daemon().unstarted(this::run);
    private volatile boolean closed;

    /// One whose batch takes every prompt.
    public PacedEngine(Duration step) {
        this(step, Integer.MAX_VALUE);
    }

    /// @param step from word to word
    /// @param batch prompts that run at once
    public PacedEngine(Duration step, int batch) {
        this(step, batch, word -> {});
    }

    /// @param chosen is told of every word when it is chosen, before anybody else
    PacedEngine(Duration step, int batch, Consumer<String> chosen) {
        this.stepNanos = step.toNanos();
        this.batch = batch;
        this.chosen = chosen;
        thread.start();
    }

    @Override
    public ModelCard card() {
        return facts.card();
    }

    @Override
    public PreparedPrompt prepare(GenerationRequest request) {
        return facts.prepare(request);
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        Job job = new Job(prompt, listener);
        load.incrementAndGet();
        submitted.add(job);
        return job;
    }

    @Override
    public int load() {
        return load.get();
    }

    /// How many prompts have ended since the start, cancelled ones too.
    long answered() {
        return answered.get();
    }

    private void run() {
        List<Job> running = new ArrayList<>();
        long next = System.nanoTime();
        while (!closed) {
            while (running.size() < batch) {
                Job job = submitted.poll();
                if (job == null) {
                    break;
                }
                job.begun = System.nanoTime();
                running.add(job);
            }
            running.removeIf(this::step);
            next = Math.max(next + stepNanos, System.nanoTime() - stepNanos);
            LockSupport.parkNanos(next - System.nanoTime());
        }
    }

    /// @return whether it has ended
    private boolean step(Job job) {
        if (!job.cancelled && job.given < job.words.length) {
            chosen.accept(job.words[job.given]);
            String word = (job.given == 0 ? "" : " ") + job.words[job.given++];
            job.text.append(word);
            job.first = job.given == 1 ? System.nanoTime() : job.first;
            job.listener.onDelta(word, job.given);
        }
        if (!job.cancelled && job.given < job.words.length) {
            return false;
        }
        load.decrementAndGet();
        answered.incrementAndGet();
        int promptTokens = job.prompt.text().getBytes(StandardCharsets.UTF_8).length;
        job.listener.onEnd(new GenerationResult(job.text.toString(), Collections.nCopies(job.given, 0),
                job.cancelled ? FinishReason.CANCELLED : FinishReason.STOP, new Usage(promptTokens, job.given, 0), timings(job), null,
                null, Transcript.NONE));
        return true;
    }

    private static Timings timings(Job job) {
        if (job.given == 0) {
            return new Timings(job.begun - job.submitted, 0, 0);
        }
        return new Timings(job.begun - job.submitted, job.first - job.submitted, System.nanoTime() - job.first);
    }

    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(thread);
        facts.close();
    }
}

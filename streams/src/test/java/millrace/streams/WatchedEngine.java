package millrace.streams;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityState;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.engine.Transcript;
import millrace.streams.bench.NoOpEngine;
import org.jspecify.annotations.Nullable;

/// The no-op engine with checks that find what a test says. Safe for any thread. The n-th prompt ends in step n.
final class WatchedEngine implements TextEngine {
    private final NoOpEngine sound = new NoOpEngine();
    private final CopyOnWriteArrayList<IntegrityEvent> events = new CopyOnWriteArrayList<>();
    private final AtomicLong submitted = new AtomicLong();
    private final LongConsumer onSubmit;
    volatile boolean admitting = true;
    volatile @Nullable String failure;

    /// @param onSubmit gets the number of each prompt, from 1, on the stream thread
    WatchedEngine(LongConsumer onSubmit) {
        this.onSubmit = onSubmit;
    }

    WatchedEngine() {
        this(number -> {});
    }

    synchronized void post(IntegrityEvent.Kind kind, IntegrityEvent.Result result, String code, long fromStep) {
        events.add(new IntegrityEvent(events.size() + 1, kind, result, code, "", System.currentTimeMillis(), fromStep));
    }

    @Override
    public List<IntegrityEvent> events(long after) {
        return events.stream().filter(event -> event.number() > after).toList();
    }

    @Override
    public IntegrityState integrity() {
        return new IntegrityState(admitting, 0, -1, -1, 0, 0, 0, 0);
    }

    @Override
    public @Nullable String failure() {
        return failure;
    }

    @Override
    public ModelCard card() {
        return sound.card();
    }

    @Override
    public PreparedPrompt prepare(GenerationRequest request) {
        return sound.prepare(request);
    }

    @Override
    public Generation submit(PreparedPrompt prompt, GenerationListener listener) {
        long step = submitted.incrementAndGet();
        onSubmit.accept(step);
        return sound.submit(prompt, result -> listener.onEnd(new GenerationResult(
                result.text(), result.tokenIds(), result.reason(), result.usage(), result.timings(), null, null,
                new Transcript(1, true, 0, step, 0, 0, 0, List.of()))));
    }

    @Override
    public int load() {
        return sound.load();
    }

    @Override
    public void close() {
        sound.close();
    }
}

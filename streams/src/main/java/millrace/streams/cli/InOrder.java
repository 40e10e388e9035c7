package millrace.streams.cli;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/// Results in the order of their requests while several are under way: at most `width` wait, so memory is bounded
/// however long the input is. Used by one thread; the futures may be completed by any.
final class InOrder<T> {
    private static final long TICK_MS = 200;

    private final int width;
    private final Consumer<T> sink;
    private final Runnable tick;
    private final Deque<CompletableFuture<T>> pending = new ArrayDeque<>();

    /// @param sink gets the results
    /// @param tick called now and then while waiting
    InOrder(int width, Consumer<T> sink, Runnable tick) {
        this.width = width;
        this.sink = sink;
        this.tick = tick;
    }

    void add(CompletableFuture<T> result) throws InterruptedException {
        pending.add(result);
        while (pending.size() >= width || !pending.isEmpty() && pending.peek().isDone()) {
            take();
        }
    }

    /// Waits for all.
    void finish() throws InterruptedException {
        while (!pending.isEmpty()) {
            take();
        }
    }

    private void take() throws InterruptedException {
        CompletableFuture<T> head = pending.element();
        while (true) {
            try {
                T result = head.get(TICK_MS, TimeUnit.MILLISECONDS);
                pending.remove();
                sink.accept(result);
                tick.run();
                return;
            } catch (TimeoutException e) {
                tick.run();
            } catch (ExecutionException e) {
                throw new IllegalStateException(e.getCause().getMessage(), e.getCause());
            }
        }
    }
}

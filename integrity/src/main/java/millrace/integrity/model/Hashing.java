package millrace.integrity.model;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/// Many digests at once.
final class Hashing {
    private Hashing() {}

    /// Results of tasks in their order, run by so many threads.
    static <T> List<T> all(List<Callable<T>> tasks, int threads) throws IOException {
        List<T> results = new ArrayList<>(tasks.size());
        if (threads == 1) {
            for (Callable<T> task : tasks) {
                try {
                    results.add(task.call());
                } catch (Exception e) {
                    throw rethrown(e);
                }
            }
            return results;
        }
        try (var pool = Executors.newFixedThreadPool(threads, Thread.ofPlatform().daemon().name("hash-", 0).factory())) {
            List<Future<T>> running = tasks.stream().map(pool::submit).toList();
            try {
                for (Future<T> one : running) {
                    results.add(one.get());
                }
            } catch (ExecutionException e) {
                pool.shutdownNow();
                throw rethrown(e.getCause());
            } catch (InterruptedException e) {
                pool.shutdownNow();
                Thread.currentThread().interrupt();
                throw new IllegalStateException("hashing was interrupted", e);
            }
        }
        return results;
    }

    private static RuntimeException rethrown(Throwable cause) throws IOException {
        return switch (cause) {
            case IOException io -> throw io;
            case RuntimeException other -> other;
            case Error error -> throw error;
            case null, default -> new IllegalStateException("hashing failed", cause);
        };
    }
}

package millrace.streams.gateway;

import java.time.Clock;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import millrace.streams.ServiceConfig;
import millrace.streams.batch.BatchException;
import millrace.streams.batch.BatchRun;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.BatchTopics;
import millrace.streams.batch.Manifest;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Works on the gateway's batches, a few at a time, until each is settled; goes on with them after a restart.
final class BatchWorker implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(BatchWorker.class);
    private static final int AT_ONCE = 4;
    private static final Duration PAUSE = Duration.ofSeconds(5);

    private final BatchStore store;
    private final ServiceConfig config;
    private final ExecutorService executor = Executors.newFixedThreadPool(AT_ONCE, Thread.ofPlatform().name("batch-", 0).daemon().factory());
    private final Map<String, BatchStatus> live = new ConcurrentHashMap<>();
    private volatile boolean stop;

    BatchWorker(BatchStore store, ServiceConfig config) {
        this.store = store;
        this.config = config;
        for (Manifest batch : store.list()) {
            if (store.ended(batch) == null) {
                add(batch);
            }
        }
    }

    void add(Manifest batch) {
        executor.execute(() -> work(batch));
    }

    private void work(Manifest batch) {
        while (!stop) {
            try (BatchTopics topics = new BatchTopics(config);
                    BatchRun run = BatchRun.open(store, batch, topics, Integer.MAX_VALUE, Clock.systemUTC())) {
                run.work(BatchRun.Goal.SETTLED, () -> stop, status -> live.put(batch.id(), status));
                if (run.status().state().isFinal()) {
                    run.publish();
                    live.remove(batch.id());
                }
                return;
            } catch (RuntimeException e) {
                if (e instanceof BatchException broken && broken.code().equals("BATCH_STATE")) {
                    LOG.error("{}: given up: {}", batch.id(), broken.getMessage());
                    return;
                }
                LOG.warn("{}: will be tried again: {}", batch.id(), e.toString());
                pause();
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /// How it stands as far as this process has seen; null if it has not seen it yet.
    @Nullable BatchStatus status(Manifest batch) {
        return live.get(batch.id());
    }

    /// Stops where it is; what was read and sent is written down.
    @Override
    public void close() {
        stop = true;
        executor.shutdown();
        try {
            if (!executor.awaitTermination(10, TimeUnit.SECONDS)) {
                executor.shutdownNow();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

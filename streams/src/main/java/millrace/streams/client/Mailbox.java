package millrace.streams.client;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Runs what it is given one after the other, on threads of an executor: what one request's listener does takes no time of the
/// thread that reads for all.
final class Mailbox {
    private static final Logger LOG = LoggerFactory.getLogger(Mailbox.class);

    private final Executor executor;
    private final Queue<Runnable> letters = new ConcurrentLinkedQueue<>();
    private final AtomicInteger count = new AtomicInteger();

    Mailbox(Executor executor) {
        this.executor = executor;
    }

    void put(Runnable letter) {
        letters.add(letter);
        if (count.getAndIncrement() == 0) {
            try {
                executor.execute(this::empty);
            } catch (RejectedExecutionException e) {
                // The client is closed; what is left is told by the thread that closes it.
                empty();
            }
        }
    }

    private void empty() {
        do {
            Runnable next = letters.remove();
            try {
                next.run();
            } catch (RuntimeException | Error e) {
                LOG.warn("what follows a record failed: {}", e.getClass().getName());
            }
        } while (count.decrementAndGet() > 0);
    }
}

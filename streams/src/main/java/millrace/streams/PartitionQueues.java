package millrace.streams;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/// What waits in each partition of the prompts that this process owns: behind the committed offset, in the pending store, and
/// of that in the engine.
final class PartitionQueues {
    /// One partition. Written by its stream thread, read by anybody.
    static final class Queue {
        private volatile boolean open;
        private volatile long pending;
        private volatile long inEngine;
        private volatile double lag = Double.NaN;

        /// @param pending prompts taken in and not yet answered
        /// @param inEngine those of them that the engine has been given
        void now(int pending, int inEngine) {
            this.pending = pending;
            this.inEngine = inEngine;
        }

        void open() {
            lag = Double.NaN;
            open = true;
        }

        void close() {
            open = false;
        }

        double pending() {
            return open ? pending : Double.NaN;
        }

        double inEngine() {
            return open ? inEngine : Double.NaN;
        }

        /// Prompts behind the committed offset; not a number while that is not known.
        double lag() {
            return open ? lag : Double.NaN;
        }
    }

    private final ServiceMetrics metrics;
    private final Map<Integer, Queue> queues = new ConcurrentHashMap<>();

    PartitionQueues(ServiceMetrics metrics) {
        this.metrics = metrics;
    }

    Queue of(int partition) {
        return queues.computeIfAbsent(partition, key -> {
            Queue queue = new Queue();
            metrics.ofPartition("millrace.queue.lag", key, queue::lag);
            metrics.ofPartition("millrace.queue.pending", key, queue::pending);
            metrics.ofPartition("millrace.queue.inflight", key, queue::inEngine);
            return queue;
        });
    }

    /// The partitions that this process owns now, in order.
    Set<Integer> owned() {
        Set<Integer> owned = new TreeSet<>();
        queues.forEach((partition, queue) -> {
            if (queue.open) {
                owned.add(partition);
            }
        });
        return owned;
    }

    /// @param behind prompts behind the committed offset, or not a number, by partition
    void lags(Map<Integer, Double> behind) {
        new TreeMap<>(behind).forEach((partition, lag) -> {
            Queue queue = queues.get(partition);
            if (queue != null) {
                queue.lag = lag;
            }
        });
    }
}

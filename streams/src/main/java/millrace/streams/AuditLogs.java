package millrace.streams;

import java.security.SecureRandom;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import millrace.integrity.TreeState;

/// The logs of one process: what it remembers of each that it has ever written, and how far those are signed that it
/// writes now.
final class AuditLogs {
    /// A canary that passed as the one before it did is news once in so many milliseconds, in one log of the process.
    static final long REGULAR_CANARY_MS = 60_000;

    private final Map<Integer, LogMemory> memories = new ConcurrentHashMap<>();
    private final Map<Integer, LogCheckpoints> open = new ConcurrentHashMap<>();
    private final Map<Integer, TreeState> begins = new ConcurrentHashMap<>();
    private final AtomicLong lastRegularMs = new AtomicLong(Long.MIN_VALUE / 2);
    private final ServiceMetrics metrics;
    private final long writer;

    AuditLogs(ServiceMetrics metrics) {
        this(metrics, new SecureRandom().nextLong());
    }

    /// @param writer names this run of the process, unlike every other
    AuditLogs(ServiceMetrics metrics, long writer) {
        this.metrics = metrics;
        this.writer = writer;
        metrics.gauge("millrace.audit.checkpoint.lag.seconds",
                () -> logs().stream().mapToLong(LogCheckpoints::lagNanos).max().orElse(0) / 1e9);
        metrics.gauge("millrace.audit.unsigned.leaves", () -> logs().stream().mapToLong(LogCheckpoints::unsignedLeaves).sum());
    }

    /// Names this run of the process, see [LogWriters].
    long writer() {
        return writer;
    }

    private Collection<LogCheckpoints> logs() {
        return open.values();
    }

    LogMemory memory(int partition) {
        return memories.computeIfAbsent(partition, key -> {
            metrics.ofPartition("millrace.audit.seq", key, () -> open.containsKey(key) ? open.get(key).size() : Double.NaN);
            metrics.ofPartition("millrace.audit.epoch", key, () -> open.containsKey(key) ? open.get(key).epoch() : Double.NaN);
            return new LogMemory(this::claimCanary);
        });
    }

    /// Whether nobody has written a regular canary within the minute before this time; who asks first has it.
    private boolean claimCanary(long epochMs) {
        long last = lastRegularMs.get();
        return epochMs - last >= REGULAR_CANARY_MS && lastRegularMs.compareAndSet(last, epochMs);
    }

    /// @param at where the task goes on with the log
    void opened(int partition, LogCheckpoints checkpoints, TreeState at) {
        begins.put(partition, at);
        open.put(partition, checkpoints);
    }

    void closed(int partition, LogCheckpoints checkpoints) {
        if (open.remove(partition, checkpoints)) {
            begins.remove(partition);
        }
    }

    /// Where the task of each log that is written now went on with it.
    Map<Integer, TreeState> begins() {
        return Map.copyOf(begins);
    }

    /// Whether every log that is written now is signed in time.
    boolean areSigned() {
        return logs().stream().noneMatch(LogCheckpoints::isLate);
    }
}

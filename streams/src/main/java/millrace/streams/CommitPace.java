package millrace.streams;

import org.apache.kafka.streams.processor.api.ProcessorContext;

/// Commits on demand, grouped: soon after something was forwarded, but not more often than the gap.
///
/// A commit for each record costs a hundred times the throughput; one every 100 ms costs 65 ms of latency.
final class CommitPace {
    private final ProcessorContext<?, ?> context;
    private final WakeableClients.Poll poll;
    private final Ticker ticker;
    private final long gapNanos;
    private boolean dirty;
    private long lastNanos;

    CommitPace(ProcessorContext<?, ?> context, WakeableClients.Poll poll, Ticker ticker, long gapMs) {
        this.context = context;
        this.poll = poll;
        this.ticker = ticker;
        this.gapNanos = gapMs * 1_000_000L;
        this.lastNanos = ticker.nanos() - gapNanos;
    }

    /// Something was forwarded that a consumer waits for.
    void wanted() {
        dirty = true;
    }

    /// Asks for the commit if it is due; else makes the next poll end when it is.
    void tick() {
        if (!dirty) {
            return;
        }
        long now = ticker.nanos();
        if (now - lastNanos >= gapNanos) {
            lastNanos = now;
            dirty = false;
            poll.deadline(0);
            context.commit();
        } else {
            poll.deadline(lastNanos + gapNanos);
        }
    }
}

package millrace.engine.batch;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;

/// Notices a turn of the loop that does not end: a kernel that hangs, a device that does not answer, a lock that nobody gives
/// back. Nothing can be done about it in this process; what can be done is to say so, so that the process ends and
/// another one takes over.
///
/// ```
///  bound = max(configured, 20 · mean of the turns that ended)      · 12 for a repair, which may read the model's files
/// ```
///
/// A turn's time is counted in the ticks of this object's own thread, each for two periods at most: a process that was
/// stopped, or a machine that slept, is not taken for a step that hangs.
final class StepWatchdog implements AutoCloseable {
    static final String HUNG = "ENGINE_HUNG";

    private static final System.Logger LOG = System.getLogger(StepWatchdog.class.getName());
    private static final int GENEROUS = 20;
    private static final int REPAIR = 12;
    private static final int MEMORY = 16;
    private static final long LONGEST_PERIOD = TimeUnit.SECONDS.toNanos(1);

    private final IntegrityLedger ledger;
    private final LongSupplier nanos;
    private final long configured;
    private final long period;
    private final Thread thread;

    // Written by the loop's thread.
    private volatile long turn;
    private volatile boolean busy;
    private volatile boolean repairing;
    private volatile long mean;
    private long began;

    // The watching thread's own.
    private long watched = -1;
    private long counted;
    private long tickedAt;
    private volatile boolean hung;
    private volatile boolean closed;

    /// @param nanos monotonic
    /// @param bound zero watches nothing
    StepWatchdog(IntegrityLedger ledger, LongSupplier nanos, Duration bound) {
        this.ledger = ledger;
        this.nanos = nanos;
        configured = bound.toNanos();
        period = Math.max(1_000_000, Math.min(LONGEST_PERIOD, configured / 10));
        tickedAt = nanos.getAsLong();
        thread = Thread.ofPlatform().daemon().name("millrace-watchdog").unstarted(this::run);
    }

    void start() {
        if (configured > 0) {
            thread.start();
        }
    }

    /// The loop's thread begins a turn.
    ///
    /// @param repair whether files may be read in it
    void begin(boolean repair) {
        began = nanos.getAsLong();
        repairing = repair;
        busy = true;
    }

    /// The loop's thread has ended its turn.
    // Only the loop's thread writes these, so read-modify-write needs no lock.
    @SuppressWarnings("NonAtomicOperationOnVolatileField")
    void end() {
        if (busy) {
            busy = false;
            turn++;
            if (!repairing) {
                mean += (nanos.getAsLong() - began - mean) / MEMORY;
            }
        }
    }

    /// Whether a turn was given up: the loop's thread is in it for good and uses what it uses.
    boolean hung() {
        return hung;
    }

    private void run() {
        while (!closed && !hung) {
            LockSupport.parkNanos(this, period);
            tick();
        }
    }

    /// Counts the time since the last tick.
    void tick() {
        long now = nanos.getAsLong();
        long passed = Math.min(now - tickedAt, 2 * period);
        tickedAt = now;
        long current = turn;
        if (!busy || current != watched) {
            watched = current;
            counted = 0;
            return;
        }
        counted += passed;
        long bound = Math.max(configured, GENEROUS * mean) * (repairing ? REPAIR : 1);
        if (counted >= bound && !hung) {
            hung = true;
            tell(bound);
        }
    }

    private void tell(long bound) {
        String reason = "engine: step %d has not ended for %d s, expected at most %d s; restart the process, and report this if it"
                .formatted(ledger.step(), TimeUnit.NANOSECONDS.toSeconds(counted), TimeUnit.NANOSECONDS.toSeconds(bound))
                + " returns. Where steps may take so long, raise integrity.step.timeout";
        LOG.log(System.Logger.Level.ERROR, reason);
        ledger.post(IntegrityEvent.Kind.COMPUTE, IntegrityEvent.Result.REFUSED, HUNG,
                "step=" + ledger.step() + " during=" + (repairing ? "repair" : "step") + " seconds="
                        + TimeUnit.NANOSECONDS.toSeconds(counted) + " bound=" + TimeUnit.NANOSECONDS.toSeconds(bound));
        ledger.refuse(reason);
    }

    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(thread);
    }
}

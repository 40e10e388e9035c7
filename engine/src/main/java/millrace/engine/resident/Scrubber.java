package millrace.engine.resident;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/// Checks block after block, round and round, on a thread of low priority.
///
/// A pass is spread evenly over nine tenths of the interval, so that no block's check is ever older than the interval.
/// After each block the thread rests at least as long as keeps its processor time within its share of a core; where that
/// is too little for the interval the share is kept, and the age of the checks says so.
public final class Scrubber implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Scrubber.class.getName());
    private static final double SPREAD = 0.9;
    private static final long IDLE_NANOS = 10_000_000;

    private final Blocks blocks;
    private final Clock clock;
    private final long intervalNanos;
    private final double share;
    private final Thread thread;
    private int next;
    private long passBegan;
    private boolean warned;
    private volatile boolean closed;

    /// What is checked. Called by the scrubber's thread alone.
    public interface Blocks {
        int count();

        /// Checks a block, and sees to it that what is found has consequences.
        ///
        /// @return false if nothing can be checked now; the same block is then asked for again
        boolean check(int block);

        /// All blocks were checked since this was called last.
        void passed();
    }

    /// Time, handed in.
    public interface Clock {
        long nanos();

        /// Processor time of the calling thread.
        long cpuNanos();

        /// The clock of the machine.
        static Clock system() {
            var threads = ManagementFactory.getThreadMXBean();
            boolean measured = threads.isCurrentThreadCpuTimeSupported();
            return new Clock() {
                @Override
                public long nanos() {
                    return System.nanoTime();
                }

                @Override
                public long cpuNanos() {
                    return measured ? threads.getCurrentThreadCpuTime() : System.nanoTime();
                }
            };
        }
    }

    /// A scrubber whose thread [#start] starts.
    ///
    /// @param interval within which each block is checked again, more than zero
    /// @param share of one core, above 0 and at most 1
    public Scrubber(Blocks blocks, Clock clock, Duration interval, double share) {
        this.blocks = blocks;
        this.clock = clock;
        this.share = share;
        intervalNanos = interval.toNanos();
        passBegan = clock.nanos();
        thread = Thread.ofPlatform().daemon().name("millrace-scrub").priority(Thread.MIN_PRIORITY).unstarted(this::run);
    }

    public void start() {
        thread.start();
    }

    private void run() {
        while (!closed) {
            long rest = step();
            if (!closed) {
                LockSupport.parkNanos(this, rest);
            }
        }
    }

    /// Checks one block.
    ///
    /// @return nanoseconds to rest before the next
    public long step() {
        long cpu = clock.cpuNanos();
        if (!blocks.check(next)) {
            return IDLE_NANOS;
        }
        if (++next == blocks.count()) {
            next = 0;
            blocks.passed();
        }
        long used = Math.max(0, clock.cpuNanos() - cpu);
        long now = clock.nanos();
        int done = next == 0 ? blocks.count() : next;
        long due = passBegan + (long) (SPREAD * intervalNanos * done / blocks.count());
        if (next == 0) {
            warnIfLate(now - passBegan);
            passBegan = Math.max(now, due);
        }
        return Math.max(Math.max(0, due - now), (long) (used * (1 / share - 1)));
    }

    private void warnIfLate(long passNanos) {
        if (passNanos > intervalNanos && !warned) {
            warned = true;
            LOG.log(
                    System.Logger.Level.WARNING,
                    "integrity.scrub.interval: expected each block of the weights to be verified every {0} s, got a pass"
                            + " of {1} s at {2} % of a core; raise integrity.scrub.share or the interval",
                    intervalNanos / 1e9,
                    passNanos / 1e9,
                    100 * share);
        }
    }

    /// Stops the thread and waits for it.
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(thread);
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}

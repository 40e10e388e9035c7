package millrace.engine.kernel.cpu;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// A few threads that share the units of one task after another: the caller and `threads − 1` workers.
///
/// Units are handed out one by one from a counter, so a thread that is held up holds up one unit only. A worker joins a
/// task only while it is open, and the caller waits only for those that joined: one that sleeps through a task is not
/// missed. Workers spin for about 50 µs after their last unit, because the next operation of a step comes within a
/// few; then they park, and between steps they use no time at all. A worker whose spinning was in vain spins a tenth as
/// long until work comes in time again: on a crowded machine spinning takes from those who compute.
///
/// [#run] is called by one thread at a time.
public final class ThreadTeam implements AutoCloseable {
    /// Work that falls into independent units.
    public interface Task {
        /// Computes one unit; called by several threads at once with different units and thread numbers.
        ///
        /// @param thread 0 for the caller, up to `threads − 1`
        void run(int unit, int thread);
    }

    private static final long SPIN_NANOS = 50_000;
    private static final long IDLE_SPIN_NANOS = 5_000;
    private static final long CLOSED = 1L << 31;
    private static final long ACTIVE_MASK = CLOSED - 1;

    private final Worker[] workers;

    /// Task number in the upper half; below it a bit for "closed" and the number of workers that are inside.
    private final AtomicLong state = new AtomicLong(CLOSED);

    private final AtomicInteger nextUnit = new AtomicInteger();
    private int units;
    private @Nullable Task task;
    private volatile @Nullable Throwable failure;
    private volatile boolean stopped;

    public ThreadTeam(int threads) {
        if (threads < 1 || threads > 1024) {
            throw new IllegalArgumentException("threads: expected 1 to 1024, got " + threads);
        }
        workers = new Worker[threads - 1];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = new Worker(i + 1);
            workers[i].setDaemon(true);
            workers[i].start();
        }
    }

    public int threads() {
        return workers.length + 1;
    }

    /// Runs every unit of the task once, on any thread, in any order; returns when all are done. An exception of a unit
    /// is thrown here, and what was not begun then is not done.
    public void run(Task work, int unitCount) {
        if (workers.length == 0 || unitCount <= 1) {
            for (int unit = 0; unit < unitCount; unit++) {
                work.run(unit, 0);
            }
            return;
        }
        task = work;
        units = unitCount;
        failure = null;
        nextUnit.set(0);
        long number = (state.get() >>> 32) + 1;
        state.set(number << 32);
        for (Worker worker : workers) {
            worker.wake();
        }
        try {
            share(work, unitCount, 0);
        } finally {
            awaitWorkers();
        }
        rethrow();
    }

    /// Runs every unit on the calling thread.
    public void runAlone(Task work, int unitCount) {
        for (int unit = 0; unit < unitCount; unit++) {
            work.run(unit, 0);
        }
    }

    private void share(Task work, int unitCount, int thread) {
        int unit;
        while (failure == null && (unit = nextUnit.getAndIncrement()) < unitCount) {
            try {
                work.run(unit, thread);
            } catch (Throwable e) {
                failure = e;
            }
        }
    }

    private void awaitWorkers() {
        state.getAndUpdate(value -> value | CLOSED);
        int spins = 0;
        while ((state.get() & ACTIVE_MASK) != 0) {
            // A worker that takes this long has probably lost its core: give it ours.
            if (++spins > 20_000) {
                Thread.yield();
            } else {
                Thread.onSpinWait();
            }
        }
        task = null;
    }

    private void rethrow() {
        Throwable thrown = failure;
        if (thrown != null) {
            failure = null;
            switch (thrown) {
                case RuntimeException e -> throw e;
                case Error e -> throw e;
                default -> throw new IllegalStateException(thrown);
            }
        }
    }

    /// Ends the workers and waits for them.
    @Override
    public void close() {
        stopped = true;
        for (Worker worker : workers) {
            LockSupport.unpark(worker);
        }
        boolean interrupted = false;
        for (Worker worker : workers) {
            while (worker.isAlive()) {
                try {
                    worker.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private final class Worker extends Thread {
        private final int index;
        private volatile boolean parked;

        Worker(int index) {
            super("millrace-kernel-" + index);
            this.index = index;
        }

        void wake() {
            if (parked) {
                LockSupport.unpark(this);
            }
        }

        @Override
        public void run() {
            long seen = 0;
            long spinNanos = SPIN_NANOS;
            while (!stopped) {
                long now = state.get();
                if (now >>> 32 == seen || (now & CLOSED) != 0) {
                    if (await(seen, spinNanos)) {
                        spinNanos = SPIN_NANOS;
                    } else {
                        spinNanos = IDLE_SPIN_NANOS;
                        park(seen);
                    }
                } else if (state.compareAndSet(now, now + 1)) {
                    seen = now >>> 32;
                    Task work = task;
                    if (work != null) {
                        share(work, units, index);
                    }
                    state.getAndDecrement();
                }
            }
        }

        /// Spins until a task is open that this worker has not seen.
        private boolean await(long seen, long nanos) {
            long start = System.nanoTime();
            do {
                for (int i = 0; i < 64; i++) {
                    if (open(seen)) {
                        return true;
                    }
                    Thread.onSpinWait();
                }
            } while (System.nanoTime() - start < nanos);
            return false;
        }

        private void park(long seen) {
            parked = true;
            // Looked at again after the flag is up: a task opened before it will not wake us.
            while (!stopped && !open(seen)) {
                LockSupport.park(ThreadTeam.this);
            }
            parked = false;
        }

        private boolean open(long seen) {
            long now = state.get();
            return now >>> 32 != seen && (now & CLOSED) == 0;
        }
    }
}

package millrace.engine.batch;

/// Time, handed in: the scheduler is a pure function of its state and of this.
public interface StepClock {
    /// Monotonic, for durations.
    long nanos();

    /// Milliseconds since the epoch, for deadlines.
    long epochMs();

    /// The clock of the machine.
    static StepClock system() {
        return new StepClock() {
            @Override
            public long nanos() {
                return System.nanoTime();
            }

            @Override
            public long epochMs() {
                return System.currentTimeMillis();
            }
        };
    }
}

package millrace.streams;

/// The time that passes, which a wall clock that is set does not change; a test brings its own.
interface Ticker {
    /// The time of this machine.
    Ticker SYSTEM = new Ticker() {
        @Override
        public long nanos() {
            return System.nanoTime();
        }

        @Override
        public void pause(long ms) throws InterruptedException {
            Thread.sleep(ms);
        }
    };

    /// Nanoseconds since some moment; only differences mean anything.
    long nanos();

    /// Lets so many milliseconds pass on the calling thread.
    void pause(long ms) throws InterruptedException;
}

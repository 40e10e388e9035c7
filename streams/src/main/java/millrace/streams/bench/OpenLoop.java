package millrace.streams.bench;

import java.util.SplittableRandom;

/// Arrivals that do not wait for answers, as those of many independent clients.
final class OpenLoop {
    private OpenLoop() {}

    /// Moments in nanoseconds from a start, the first at zero, with exponential gaps. Equal seeds give equal moments.
    ///
    /// @param perSecond how many there are on average
    static long[] moments(int count, double perSecond, long seed) {
        var random = new SplittableRandom(seed);
        long[] due = new long[count];
        double at = 0;
        for (int i = 0; i < count; i++) {
            due[i] = (long) (at * 1e9);
            at -= Math.log(1 - random.nextDouble()) / perSecond;
        }
        return due;
    }
}

package millrace.streams.console;

import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.time.Duration;

/// The service's meters once a second, for a quarter of an hour, so that a page that is opened later begins with a history.
final class Samples implements AutoCloseable {
    private static final Duration EVERY = Duration.ofSeconds(1);
    private static final int KEPT = 900;
    /// Rates and quantiles are those of so many samples.
    private static final int RATE_SPAN = 5;
    private static final int QUANTILE_SPAN = 60;

    /// Counters as they stood, and gauges.
    private record Raw(
            long timeMs, double answers, double input, double output, double cached, double batches, double batched,
            Histogram firstToken, Histogram request) {}

    /// One point of every chart. What is not known is not a number.
    ///
    /// @param timeMs milliseconds since the epoch
    /// @param promptsPerSecond of the last five seconds, as the two after it
    /// @param firstTokenP50 seconds, of the last minute, as the three after it
    /// @param kvUsed share of the KV cache's pages that sequences hold
    /// @param cachedShare share of the input tokens of the last minute that came from the cache
    /// @param batch mean of the micro-batches of the last minute
    record Point(
            long timeMs, double promptsPerSecond, double inputPerSecond, double outputPerSecond,
            double firstTokenP50, double firstTokenP99, double requestP50, double requestP99,
            double inflight, double pending, double lag, double kvUsed, double cachedShare, double batch) {}

    private final MeterReader meters;
    private final ArrayDeque<Raw> raw = new ArrayDeque<>();
    private final ArrayDeque<Point> points = new ArrayDeque<>();
    private final Thread thread;
    private volatile boolean closing;

    private Samples(MeterReader meters) {
        this.meters = meters;
        this.thread = Thread.ofPlatform().name("millrace-console-samples").daemon().unstarted(this::run);
    }

    static Samples start(MeterReader meters) {
        Samples samples = new Samples(meters);
        samples.thread.start();
        return samples;
    }

    private void run() {
        while (!closing) {
            take(System.currentTimeMillis());
            LockSupport.parkNanos(EVERY.toNanos());
        }
    }

    private void take(long nowMs) {
        String usage = "gen_ai.client.token.usage";
        Raw now = new Raw(
                nowMs, meters.counter("millrace.completions"),
                meters.total(usage, "gen_ai.token.type", "input"), meters.total(usage, "gen_ai.token.type", "output"),
                meters.counter("millrace.prompts.cached.tokens"),
                meters.count("millrace.batch.size"), meters.total("millrace.batch.size"),
                meters.seconds("gen_ai.server.time_to_first_token"), meters.seconds("gen_ai.server.request.duration"));
        double pages = meters.gauge("millrace.kv.pages");
        double kvUsed = pages > 0 ? 1 - meters.gauge("millrace.kv.pages.free") / pages : Double.NaN;
        synchronized (this) {
            raw.addLast(now);
            if (raw.size() > QUANTILE_SPAN + 1) {
                raw.removeFirst();
            }
            List<Raw> all = List.copyOf(raw);
            Raw recent = all.get(Math.max(0, all.size() - 1 - RATE_SPAN));
            Raw minute = all.getFirst();
            double seconds = (nowMs - recent.timeMs()) / 1_000.0;
            points.addLast(new Point(
                    nowMs, rate(now.answers() - recent.answers(), seconds), rate(now.input() - recent.input(), seconds),
                    rate(now.output() - recent.output(), seconds),
                    now.firstToken().quantileSince(minute.firstToken(), 0.5), now.firstToken().quantileSince(minute.firstToken(), 0.99),
                    now.request().quantileSince(minute.request(), 0.5), now.request().quantileSince(minute.request(), 0.99),
                    meters.gauge("millrace.inflight"), meters.gauge("millrace.queue.pending"), meters.gauge("millrace.queue.lag"),
                    kvUsed, ratio(now.cached() - minute.cached(), now.input() - minute.input()),
                    ratio(now.batched() - minute.batched(), now.batches() - minute.batches())));
            if (points.size() > KEPT) {
                points.removeFirst();
            }
        }
    }

    private static double rate(double count, double seconds) {
        return seconds <= 0 ? Double.NaN : count / seconds;
    }

    private static double ratio(double part, double whole) {
        return whole <= 0 ? Double.NaN : part / whole;
    }

    /// Points after this time, oldest first.
    synchronized List<Point> after(long timeMs) {
        return points.stream().filter(point -> point.timeMs() > timeMs).toList();
    }

    @Override
    public void close() {
        closing = true;
        LockSupport.unpark(thread);
    }
}

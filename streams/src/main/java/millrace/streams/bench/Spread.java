package millrace.streams.bench;

import java.util.Arrays;

/// Percentiles of measured durations, in milliseconds.
public record Spread(int count, double p50, double p90, double p95, double p99, double max) {
    static Spread ofNanos(long[] nanos) {
        long[] sorted = nanos.clone();
        Arrays.sort(sorted);
        return new Spread(sorted.length, at(sorted, 0.50), at(sorted, 0.90), at(sorted, 0.95), at(sorted, 0.99), at(sorted, 1.0));
    }

    private static double at(long[] sorted, double quantile) {
        int index = (int) Math.ceil(quantile * sorted.length) - 1;
        return sorted[Math.max(0, index)] / 1e6;
    }

    @Override
    public String toString() {
        return "p50 %.1f ms, p90 %.1f ms, p95 %.1f ms, p99 %.1f ms, max %.1f ms (n=%d)".formatted(p50, p90, p95, p99, max, count);
    }
}

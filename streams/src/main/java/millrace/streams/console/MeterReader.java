package millrace.streams.console;

import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.micrometer.core.instrument.distribution.CountAtBucket;
import io.micrometer.core.instrument.search.Search;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/// Reads the meters that `/metrics` shows, so that the console says nothing that they do not. What has several series is
/// summed.
final class MeterReader {
    private final MeterRegistry meters;

    MeterReader(MeterRegistry meters) {
        this.meters = meters;
    }

    private Search find(String name, String... tags) {
        return meters.find(name).tags(tags);
    }

    /// Sum of the counters; 0 where there are none.
    double counter(String name, String... tags) {
        Search found = find(name, tags);
        return found.counters().stream().mapToDouble(counter -> counter.count()).sum()
                + found.functionCounters().stream().mapToDouble(counter -> counter.count()).sum();
    }

    /// Sum of the gauges; not a number where there are none, or none has a value.
    double gauge(String name, String... tags) {
        double sum = Double.NaN;
        for (Gauge gauge : find(name, tags).gauges()) {
            double value = gauge.value();
            if (!Double.isNaN(value)) {
                sum = Double.isNaN(sum) ? value : sum + value;
            }
        }
        return sum;
    }

    /// The value of each partition that has one.
    Map<Integer, Double> byPartition(String name) {
        Map<Integer, Double> values = new TreeMap<>();
        for (Gauge gauge : find(name).gauges()) {
            String partition = gauge.getId().getTag("partition");
            if (partition != null && !Double.isNaN(gauge.value())) {
                values.put(Integer.parseInt(partition), gauge.value());
            }
        }
        return values;
    }

    /// The value of a label of a fact; empty where there is none.
    String label(String name, String label) {
        Gauge gauge = find(name).gauge();
        String value = gauge == null ? null : gauge.getId().getTag(label);
        return value == null ? "" : value;
    }

    /// Total of all that summaries have recorded.
    double total(String name, String... tags) {
        return find(name, tags).summaries().stream().mapToDouble(DistributionSummary::totalAmount).sum();
    }

    /// How often summaries have recorded.
    double count(String name, String... tags) {
        return find(name, tags).summaries().stream().mapToDouble(DistributionSummary::count).sum();
    }

    /// Records of timers at most as long as each bound, in seconds; the last bound is infinity.
    Histogram seconds(String name) {
        TreeMap<Double, Double> upTo = new TreeMap<>();
        double all = 0;
        for (Timer timer : find(name).timers()) {
            for (CountAtBucket bucket : timer.takeSnapshot().histogramCounts()) {
                double bound = bucket.bucket(TimeUnit.SECONDS);
                if (bound < 1e9) {
                    upTo.merge(bound, bucket.count(), Double::sum);
                }
            }
            all += timer.count();
        }
        upTo.put(Double.POSITIVE_INFINITY, all);
        return new Histogram(
                upTo.keySet().stream().mapToDouble(Double::doubleValue).toArray(),
                upTo.values().stream().mapToDouble(Double::doubleValue).toArray());
    }
}

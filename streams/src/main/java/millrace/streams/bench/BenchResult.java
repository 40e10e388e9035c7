package millrace.streams.bench;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// What was measured of one thing: names that say of what, and figures with their spread.
public final class BenchResult {
    /// Figures that every result has in JSON, null where they mean nothing.
    static final java.util.List<String> ALWAYS =
            java.util.List.of("tokens_per_second", "gb_per_second", "share_of_bandwidth", "ratio_to_bf16");

    private final String bench;
    private final String backend;
    private final String format;
    private final @Nullable Integer batch;
    private final int threads;
    private final Map<String, String> labels = new LinkedHashMap<>();
    private final Map<String, Samples> figures = new LinkedHashMap<>();
    private final Map<String, Long> facts = new TreeMap<>();

    /// @param bench gemv, gemm, attention, decode, prefill, integrity or serve
    /// @param format of the weights, in attention of the KV cache
    /// @param batch rows or sequences at once, or null where that is not fixed
    public BenchResult(String bench, String backend, String format, @Nullable Integer batch, int threads) {
        this.bench = bench;
        this.backend = backend;
        this.format = format;
        this.batch = batch;
        this.threads = threads;
    }

    public BenchResult label(String name, String value) {
        labels.put(name, value);
        return this;
    }

    /// A number that is not measured in rounds.
    public BenchResult fact(String name, long value) {
        facts.put(name, value);
        return this;
    }

    public BenchResult sample(String figure, double value) {
        figures.computeIfAbsent(figure, name -> new Samples()).add(value);
        return this;
    }

    public String bench() {
        return bench;
    }

    public String backend() {
        return backend;
    }

    public String format() {
        return format;
    }

    public @Nullable Integer batch() {
        return batch;
    }

    public int threads() {
        return threads;
    }

    /// The empty string if there is none of that name.
    public String label(String name) {
        return labels.getOrDefault(name, "");
    }

    public Map<String, String> labels() {
        return labels;
    }

    public Map<String, Long> facts() {
        return facts;
    }

    public Map<String, Samples> figures() {
        return figures;
    }

    public @Nullable Samples figure(String name) {
        return figures.get(name);
    }

    /// The median, NaN if there is none.
    public double median(String name) {
        Samples samples = figures.get(name);
        return samples == null || samples.isEmpty() ? Double.NaN : samples.median();
    }
}

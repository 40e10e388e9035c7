package millrace.streams.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// The main results as charts, by the names of their files.
public final class BenchCharts {
    private BenchCharts() {}

    /// Those for which there are results, in the order of the page.
    public static Map<String, Chart> of(BenchReport report) {
        Map<String, Chart> all = new LinkedHashMap<>();
        List<BenchResult> results = report.results();
        var read = new Chart.Reference("read loop", report.limits().readBytes() / 1e9);
        put(all, "gemv.svg", bars("One row times a matrix (GEMV): bytes of weights read", "weight format", "GB/s",
                of(results, "gemv"), BenchResult::format, BenchResult::backend, "gb_per_second", read));
        put(all, "gemm.svg", lines("Product by rows of input (GEMM), kernels of the first backend", "rows", "GFLOP/s",
                preferred(results.stream().filter(r -> r.bench().equals("gemv") || r.bench().equals("gemm")).toList()),
                BenchCharts::batch, BenchResult::format, "gflops",
                new Chart.Reference("multiply-add loop", report.limits().flops() / 1e9)));
        put(all, "attention.svg", bars("Attention of one token over a long cache: bytes of cache read", "KV format", "GB/s",
                of(results, "attention"), BenchResult::format,
                r -> r.label("shape").replaceAll(",.*", "") + ", " + r.backend(), "gb_per_second", read));
        Set<String> models = new LinkedHashSet<>();
        of(results, "decode").forEach(result -> models.add(result.label("model")));
        for (String model : models) {
            List<BenchResult> decode = of(results, "decode").stream().filter(r -> r.label("model").equals(model)).toList();
            String file = model.replaceAll("ForCausalLM", "").replaceAll("[^A-Za-z0-9.]+", "-").toLowerCase(java.util.Locale.ROOT);
            put(all, "decode-" + file + ".svg", lines("Decode of " + model + ": all sequences together", "batch", "tokens/s",
                    many(decode, BenchCharts::batch), BenchCharts::batch, BenchCharts::variant, "tokens_per_second", null));
            put(all, "context-" + file + ".svg", lines("Decode of " + model + " by context, batch 1", "tokens of context",
                    "tokens/s", many(single(decode), r -> r.label("context")), r -> r.label("context"), BenchCharts::variant, "tokens_per_second", null));
        }
        put(all, "prefill.svg", bars("Prefill of one prompt", "weight format", "tokens/s", of(results, "prefill"),
                BenchResult::format, r -> r.label("model") + ", " + r.backend(), "tokens_per_second", null));
        put(all, "serve.svg", latencies(of(results, "serve")));
        return all;
    }

    private static void put(Map<String, Chart> all, String file, Chart chart) {
        if (!chart.isEmpty()) {
            all.put(file, chart);
        }
    }

    private static List<BenchResult> of(List<BenchResult> results, String bench) {
        return results.stream().filter(result -> result.bench().equals(bench)).toList();
    }

    /// Those of the first backend, which is the fastest.
    private static List<BenchResult> preferred(List<BenchResult> results) {
        return results.stream().filter(result -> result.backend().equals(results.getFirst().backend())).toList();
    }

    private static List<BenchResult> single(List<BenchResult> decode) {
        return decode.stream().filter(result -> Integer.valueOf(1).equals(result.batch())).toList();
    }

    /// None of them where they have one category only: that is no line.
    private static List<BenchResult> many(List<BenchResult> results, Function<BenchResult, String> category) {
        return results.stream().map(category).distinct().count() > 1 ? results : List.of();
    }

    private static String batch(BenchResult result) {
        return String.valueOf(result.batch());
    }

    private static String variant(BenchResult result) {
        return result.format() + ", KV " + result.label("kv_format") + ", " + result.backend();
    }

    private static Chart bars(
            String title, String xAxis, String yAxis, List<BenchResult> results, Function<BenchResult, String> category,
            Function<BenchResult, String> series, String figure, Chart.@Nullable Reference reference) {
        return chart(title, xAxis, yAxis, true, results, category, series, figure, reference);
    }

    private static Chart lines(
            String title, String xAxis, String yAxis, List<BenchResult> results, Function<BenchResult, String> category,
            Function<BenchResult, String> series, String figure, Chart.@Nullable Reference reference) {
        return chart(title, xAxis, yAxis, false, results, category, series, figure, reference);
    }

    private static Chart chart(
            String title, String xAxis, String yAxis, boolean bars, List<BenchResult> results,
            Function<BenchResult, String> category, Function<BenchResult, String> series, String figure,
            Chart.@Nullable Reference reference) {
        Set<String> categories = new LinkedHashSet<>();
        Set<String> names = new LinkedHashSet<>();
        for (BenchResult result : results) {
            categories.add(category.apply(result));
            names.add(series.apply(result));
        }
        List<Chart.Series> all = new ArrayList<>();
        for (String name : names) {
            List<@Nullable Samples> values = new ArrayList<>();
            for (String one : categories) {
                values.add(results.stream()
                        .filter(result -> category.apply(result).equals(one) && series.apply(result).equals(name))
                        .findFirst().map(result -> result.figure(figure)).orElse(null));
            }
            all.add(new Chart.Series(name, values));
        }
        return new Chart(title, xAxis, yAxis, bars, List.copyOf(categories), all, reference);
    }

    private static Chart latencies(List<BenchResult> results) {
        List<BenchResult> rated = results.stream().filter(result -> result.figure("p50_ms") != null).toList();
        List<Chart.Series> series = new ArrayList<>();
        for (String percentile : List.of("p50", "p95", "p99")) {
            List<@Nullable Samples> values = new ArrayList<>();
            rated.forEach(result -> values.add(result.figure(percentile + "_ms")));
            series.add(new Chart.Series(percentile, values));
        }
        return new Chart("Latency through Kafka by arrival rate: due to committed answer", "share of the service's throughput",
                "ms", false, rated.stream().map(result -> result.label("load")).toList(), series, null);
    }
}

package millrace.streams.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import javax.xml.parsers.DocumentBuilderFactory;
import millrace.engine.Machine;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Document;
import org.xml.sax.InputSource;

class BenchReportTest {
    private static final MachineBench.Limits LIMITS = new MachineBench.Limits(
            new Machine("A <fast> one", 2, 8L << 30, Map.of("l2", 2L << 20), "Linux", "JVM 25", 512,
                    List.of(new Machine.Kernels("native", true, "AVX-512, library from /some/cache/lib.so"),
                            new Machine.Kernels("vector", false, "no module"))),
            2, Map.of(1, Samples.of(10e9), 2, Samples.of(20e9, 19e9, 21e9)), Map.of(1, Samples.of(1e11), 2, Samples.of(2e11)), 0.1);

    @TempDir
    Path dir;

    @Test
    void medianAndSpreadOfSamples() {
        Samples samples = Samples.of(3, 1, 2);
        assertThat(samples.median()).isEqualTo(2);
        assertThat(samples.min()).isEqualTo(1);
        assertThat(samples.max()).isEqualTo(3);
        assertThat(Samples.of(1, 2, 3, 4).median()).isEqualTo(2);
        assertThatThrownBy(() -> new Samples().median()).hasMessage("no samples: nothing was measured");
    }

    @Test
    void jsonHasTheAgreedShape() throws IOException {
        String text = report().json();
        assertThat(text).doesNotContain("\n");
        JsonNode root = new ObjectMapper().readTree(text);
        assertThat(root.fieldNames()).toIterable().containsExactly("machine", "results");
        assertThat(root.get("machine").fieldNames()).toIterable().containsExactly("processor", "cores", "threads",
                "memory_bytes", "cache_bytes", "os", "jvm", "vector_bits", "backends", "read_gb_per_second", "fma_gflops",
                "load_average");
        assertThat(root.at("/machine/read_gb_per_second/2").asDouble()).isEqualTo(20);
        assertThat(root.at("/machine/read_gb_per_second/2_range").toString()).isEqualTo("[19.0,21.0]");
        assertThat(root.at("/machine/backends/1/available").asBoolean()).isFalse();
        JsonNode gemv = root.at("/results/0");
        assertThat(gemv.fieldNames()).toIterable().containsExactly("bench", "backend", "format", "batch", "threads", "shape",
                "tokens_per_second", "tokens_per_second_range", "gb_per_second", "gb_per_second_range", "share_of_bandwidth",
                "ratio_to_bf16");
        assertThat(gemv.get("gb_per_second").asDouble()).isEqualTo(18.01);
        assertThat(gemv.get("share_of_bandwidth").isNull()).as("always there, null where it means nothing").isTrue();
        JsonNode decode = root.at("/results/2");
        assertThat(decode.get("context").isInt()).as("numbers are numbers").isTrue();
        assertThat(decode.get("plan_bytes").asLong()).isEqualTo(123);
    }

    @Test
    void tablesShowMedianAndSpread() {
        assertThat(report().text()).contains("read loop, 2 threads: 20.0 (19.0 to 21.0) GB/s")
                .contains("gemv   native   bf16    1").contains("18.0 (18.0 to 18.5)");
        assertThat(report().markdown()).contains("| bench | backend | format | batch |").contains("| gemv | native | bf16 | 1 |")
                .contains("| backend native | AVX-512, lib.so |").doesNotContain("/some/");
    }

    @Test
    void chartsAreWellFormedAndShowEverySeries() throws Exception {
        Map<String, Chart> charts = BenchDocument.writeCharts(dir.resolve("charts"), report());
        assertThat(charts.keySet()).containsExactly("gemv.svg", "gemm.svg", "decode-m-1b.svg", "serve.svg");
        for (String file : charts.keySet()) {
            String svg = Files.readString(dir.resolve("charts").resolve(file));
            Document parsed = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new InputSource(new StringReader(svg)));
            assertThat(parsed.getDocumentElement().getTagName()).isEqualTo("svg");
            assertThat(svg).contains("prefers-color-scheme: dark").doesNotContain("NaN").doesNotContain("Infinity");
            Chart chart = charts.get(file);
            assertThat(parsed.getElementsByTagName("title").item(0).getTextContent()).isEqualTo(chart.title());
            chart.series().forEach(series -> assertThat(svg).contains(">" + series.name() + "</text>"));
            chart.categories().forEach(category -> assertThat(svg).contains(">" + category + "</text>"));
            assertThat(svg).contains(">" + chart.yAxis() + "</text>", ">" + chart.xAxis() + "</text>");
        }
        assertThat(Files.readString(dir.resolve("charts/gemv.svg"))).contains("class=\"reference\"").contains("read loop");
    }

    @Test
    void namesAreEscapedInCharts() throws Exception {
        Chart chart = new Chart("a < b & \"c\"", "x", "y", true, List.of("<1>"),
                List.of(new Chart.Series("p&q", Arrays.asList(Samples.of(1, 2)))), null);
        Document parsed = DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(new InputSource(new StringReader(chart.svg())));
        assertThat(parsed.getElementsByTagName("title").item(0).getTextContent()).isEqualTo("a < b & \"c\"");
    }

    @Test
    void axesEndAtRoundNumbers() {
        assertThat(Chart.step(17.3)).isEqualTo(5);
        assertThat(Chart.step(100)).isEqualTo(20);
        assertThat(Chart.step(0.9)).isEqualTo(0.2);
    }

    @Test
    void documentIsWrittenBetweenItsMarkers() throws IOException {
        Path page = Files.writeString(dir.resolve("page.md"), "before\n" + BenchDocument.BEGIN + "\nold\n" + BenchDocument.END + "\nafter\n");
        Map<String, Chart> charts = BenchDocument.writeCharts(dir.resolve("charts"), report());
        BenchDocument.write(page, report(), "./millrace bench all", charts, "charts/");
        BenchDocument.write(page, report(), "./millrace bench all", charts, "charts/");
        assertThat(Files.readString(page)).startsWith("before\n").endsWith(BenchDocument.END + "\nafter\n").doesNotContain("old")
                .contains("by `./millrace bench all`").containsOnlyOnce("](charts/gemv.svg)");
        Path other = Files.writeString(dir.resolve("other.md"), "no markers");
        assertThatThrownBy(() -> BenchDocument.check(other)).hasMessage(other
                + ": expected the lines <!-- bench: begin --> and <!-- bench: end -->, in this order; add them where the results belong");
    }

    private static BenchReport report() {
        return new BenchReport(LIMITS, List.of(
                new BenchResult("gemv", "native", "bf16", 1, 2).label("shape", "8 x 8")
                        .sample("tokens_per_second", 5).sample("gb_per_second", 18.012).sample("gb_per_second", 18.5)
                        .sample("gb_per_second", 18),
                new BenchResult("gemm", "native", "bf16", 8, 2).sample("gflops", 90),
                new BenchResult("decode", "native", "bf16", 1, 2).label("model", "m:1b").label("kv_format", "int8")
                        .label("context", "64").sample("tokens_per_second", 9).fact("plan_bytes", 123),
                new BenchResult("decode", "native", "bf16", 8, 2).label("model", "m:1b").label("kv_format", "int8")
                        .label("context", "64").sample("tokens_per_second", 50),
                new BenchResult("serve", "native", "bf16", null, 2).label("model", "glm-tiny").label("load", "50 %")
                        .sample("p50_ms", 3).sample("p95_ms", 5).sample("p99_ms", 9)));
    }
}

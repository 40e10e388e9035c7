package millrace.streams.bench;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import millrace.engine.Machine;
import org.jspecify.annotations.Nullable;

/// Limits of a machine and what was measured on it: as one line of JSON, as text, and as Markdown.
public record BenchReport(MachineBench.Limits limits, List<BenchResult> results) {
    private static final ObjectMapper JSON = new ObjectMapper();

    public BenchReport {
        results = List.copyOf(results);
    }

    // -------------------------------------------------------------------------------------------------- JSON

    public String json() {
        ObjectNode root = JSON.createObjectNode();
        root.set("machine", machine());
        var list = root.putArray("results");
        results.forEach(result -> list.add(json(result)));
        try {
            return JSON.writeValueAsString(root);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a report is plain text and numbers", e);
        }
    }

    private ObjectNode machine() {
        Machine machine = limits.machine();
        ObjectNode node = JSON.createObjectNode();
        node.put("processor", machine.processor()).put("cores", machine.cores()).put("threads", limits.threads());
        node.put("memory_bytes", machine.memoryBytes());
        ObjectNode caches = node.putObject("cache_bytes");
        machine.cacheBytes().forEach(caches::put);
        node.put("os", machine.os()).put("jvm", machine.jvm()).put("vector_bits", machine.vectorBits());
        var backends = node.putArray("backends");
        for (Machine.Kernels one : machine.backends()) {
            backends.addObject().put("name", one.name()).put("available", one.available()).put("detail", one.detail());
        }
        put(node.putObject("read_gb_per_second"), limits.readBytesPerSecond());
        put(node.putObject("fma_gflops"), limits.flopsPerSecond());
        return node.put("load_average", rounded(limits.loadAverage()));
    }

    /// By threads: median, and the range beside it.
    private static void put(ObjectNode node, Map<Integer, Samples> rates) {
        rates.forEach((threads, samples) -> put(node, threads.toString(), samples, 1e-9));
    }

    private static void put(ObjectNode node, String name, Samples samples, double unit) {
        node.put(name, rounded(samples.median() * unit));
        node.putArray(name + "_range").add(rounded(samples.min() * unit)).add(rounded(samples.max() * unit));
    }

    private static ObjectNode json(BenchResult result) {
        ObjectNode node = JSON.createObjectNode();
        node.put("bench", result.bench()).put("backend", result.backend()).put("format", result.format());
        node.put("batch", result.batch()).put("threads", result.threads());
        result.labels().forEach((name, value) -> {
            if (value.matches("\\d{1,9}")) {
                node.put(name, Integer.parseInt(value));
            } else {
                node.put(name, value);
            }
        });
        for (String name : BenchResult.ALWAYS) {
            put(node, name, result.figure(name));
        }
        result.figures().forEach((name, samples) -> {
            if (!BenchResult.ALWAYS.contains(name)) {
                put(node, name, samples);
            }
        });
        result.facts().forEach(node::put);
        return node;
    }

    private static void put(ObjectNode node, String name, @Nullable Samples samples) {
        if (samples == null || samples.isEmpty()) {
            node.putNull(name);
        } else {
            put(node, name, samples, 1);
        }
    }

    /// Four significant digits: more would be noise.
    static double rounded(double value) {
        return Double.isFinite(value) ? Double.parseDouble(String.format(Locale.ROOT, "%.4g", value)) : 0;
    }

    // -------------------------------------------------------------------------------------------------- tables

    /// For a terminal.
    public String text() {
        StringBuilder out = new StringBuilder();
        machineLines().forEach(line -> out.append(line[0]).append(": ").append(line[1]).append('\n'));
        for (List<String[]> table : tables()) {
            out.append('\n');
            int[] widths = new int[table.getFirst().length];
            for (String[] row : table) {
                for (int i = 0; i < row.length; i++) {
                    widths[i] = Math.max(widths[i], row[i].length());
                }
            }
            for (String[] row : table) {
                StringBuilder line = new StringBuilder();
                for (int i = 0; i < row.length; i++) {
                    line.append(row[i]).append(" ".repeat(widths[i] - row[i].length() + 2));
                }
                out.append(line.toString().stripTrailing()).append('\n');
            }
        }
        return out.toString();
    }

    /// For a document.
    public String markdown() {
        StringBuilder out = new StringBuilder("| machine | |\n|---|---|\n");
        // A path of this machine is nothing to a reader.
        machineLines().forEach(line -> out.append("| ").append(line[0]).append(" | ")
                .append(line[1].replaceAll("(library from )?/[^ ,]+/([^ ,/]+)", "$2")).append(" |\n"));
        for (List<String[]> table : tables()) {
            out.append('\n');
            for (int r = 0; r < table.size(); r++) {
                out.append("| ").append(String.join(" | ", table.get(r))).append(" |\n");
                if (r == 0) {
                    out.append("|---".repeat(table.getFirst().length)).append("|\n");
                }
            }
        }
        return out.toString();
    }

    private List<String[]> machineLines() {
        Machine machine = limits.machine();
        List<String[]> lines = new ArrayList<>();
        lines.add(new String[] {"processor", machine.processor() + ", " + machine.cores() + " cores, "
                + (machine.memoryBytes() >> 30) + " GiB; caches " + caches(machine)});
        lines.add(new String[] {"JVM", machine.jvm() + ", " + machine.os() + ", vectors of " + machine.vectorBits() + " bits"});
        for (Machine.Kernels one : machine.backends()) {
            lines.add(new String[] {"backend " + one.name(), (one.available() ? "" : "not available: ") + one.detail()});
        }
        limits.readBytesPerSecond().forEach((threads, rate) ->
                lines.add(new String[] {"read loop, " + threads(threads), cell(rate, 1e-9) + " GB/s"}));
        limits.flopsPerSecond().forEach((threads, rate) ->
                lines.add(new String[] {"multiply-add loop, " + threads(threads), cell(rate, 1e-9) + " GFLOP/s"}));
        lines.add(new String[] {"load before", number(limits.loadAverage())});
        return lines;
    }

    private static String threads(int threads) {
        return threads == 1 ? "1 thread" : threads + " threads";
    }

    private static String caches(Machine machine) {
        StringBuilder text = new StringBuilder();
        machine.cacheBytes().forEach((level, bytes) -> text.append(text.isEmpty() ? "" : ", ")
                .append(level.toUpperCase(Locale.ROOT)).append(' ').append(bytes >> 10).append(" KiB"));
        return text.isEmpty() ? "unknown" : text.toString();
    }

    /// A table for each bench and model, with a column for what its results have.
    private List<List<String[]>> tables() {
        List<List<String[]>> tables = new ArrayList<>();
        Set<String> groups = new LinkedHashSet<>();
        results.forEach(result -> groups.add(group(result)));
        for (String group : groups) {
            List<BenchResult> rows = results.stream().filter(result -> group(result).equals(group)).toList();
            Set<String> labels = new LinkedHashSet<>();
            Set<String> figures = new LinkedHashSet<>();
            rows.forEach(row -> labels.addAll(row.labels().keySet()));
            rows.forEach(row -> figures.addAll(row.figures().keySet()));
            List<String> header = new ArrayList<>(List.of("bench", "backend", "format", "batch"));
            labels.forEach(name -> header.add(name.replace('_', ' ')));
            figures.forEach(name -> header.add(name.replace('_', ' ')));
            List<String[]> table = new ArrayList<>();
            table.add(header.toArray(String[]::new));
            for (BenchResult row : rows) {
                List<String> cells = new ArrayList<>(List.of(row.bench(), row.backend(), row.format(),
                        row.batch() == null ? "" : row.batch().toString()));
                labels.forEach(name -> cells.add(row.label(name)));
                figures.forEach(name -> cells.add(cell(row.figure(name), 1)));
                table.add(cells.toArray(String[]::new));
            }
            tables.add(table);
        }
        return tables;
    }

    private static String group(BenchResult result) {
        return result.bench() + " " + result.label("model");
    }

    /// Median and range.
    private static String cell(@Nullable Samples samples, double unit) {
        if (samples == null || samples.isEmpty()) {
            return "";
        }
        String median = number(samples.median() * unit);
        return samples.count() == 1
                ? median
                : median + " (" + number(samples.min() * unit) + " to " + number(samples.max() * unit) + ")";
    }

    private static String number(double value) {
        double size = Math.abs(value);
        return String.format(Locale.ROOT, size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f", value);
    }
}

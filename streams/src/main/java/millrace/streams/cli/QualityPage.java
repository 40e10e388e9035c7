package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

/// A page with the tables of measured quality between two marks; what stands around them is written by hand.
final class QualityPage {
    /// What a format may cost to count as lossless in practice.
    static final double MOST_DELTA_NLL = 0.005;
    static final double LEAST_AGREEMENT = 0.99;

    private static final String BEGIN = "<!-- tables: written by ./millrace eval quality --write docs/quality.md -->\n";
    private static final String END = "<!-- end of tables -->\n";
    private static final String HEAD = "| weights | KV | weights, MB | KV, bytes a token | mean KL | p99 KL | top-1 | ΔNLL | right "
            + "| same answers | within |\n|---|---|---|---|---|---|---|---|---|---|---|\n";

    private final Path file;
    private final String before;
    private final String after;

    private QualityPage(Path file, String before, String after) {
        this.file = file;
        this.before = before;
        this.after = after;
    }

    /// @throws IllegalArgumentException for a page without the marks
    static QualityPage read(Path file) throws IOException {
        if (!Files.isRegularFile(file)) {
            throw new IllegalArgumentException(file + ": expected an existing page, got none; check the path");
        }
        String text = Files.readString(file);
        int begin = text.indexOf(BEGIN);
        int end = text.indexOf(END);
        if (begin < 0 || end < begin) {
            throw new IllegalArgumentException(file + ": expected the lines " + BEGIN.strip() + " and " + END.strip()
                    + " in this order, got a page without; add them where the tables belong");
        }
        return new QualityPage(file, text.substring(0, begin + BEGIN.length()), text.substring(end));
    }

    void write(List<ObjectNode> rows) throws IOException {
        Path temporary = file.resolveSibling("." + file.getFileName() + ".tmp");
        Files.writeString(temporary, before + "\n" + tables(rows) + "\n" + after);
        Files.move(temporary, file, java.nio.file.StandardCopyOption.REPLACE_EXISTING);
    }

    /// A table for each model, in the order of the rows.
    static String tables(List<ObjectNode> rows) {
        Map<String, List<ObjectNode>> byModel = rows.stream()
                .collect(Collectors.groupingBy(row -> row.get("model").asText(), LinkedHashMap::new, Collectors.toList()));
        return byModel.entrySet().stream()
                .map(entry -> "### " + entry.getKey() + "\n\n" + about(entry.getValue().getFirst()) + "\n\n" + HEAD
                        + entry.getValue().stream().map(QualityPage::line).collect(Collectors.joining()))
                .collect(Collectors.joining("\n"));
    }

    private static String about(JsonNode row) {
        JsonNode nll = row.at("/reference/nll");
        return String.format(
                Locale.ROOT, "Reference: KV `%s`, weights `%s`; %d predicted tokens, mean NLL %.6f; %d of %d questions right.",
                row.at("/reference/kv_format").asText(), row.at("/reference/weight_format").asText(),
                nll.get("predicted_tokens").asInt(), nll.get("mean_nll").asDouble(),
                row.at("/reference/accuracy/all/correct").asInt(), row.at("/quality/questions").asInt());
    }

    private static String line(JsonNode row) {
        JsonNode quality = row.get("quality");
        return String.format(
                Locale.ROOT, "| `%s` | `%s` | %.2f | %d | %s | %s | %.2f %% | %s | %d | %d | %s |%n".replace("%n", "\n"),
                row.get("weights").asText(), row.get("kv_format").asText(), row.get("weight_bytes").asLong() / 1e6,
                row.get("kv_bytes_per_token").asLong(), nats("%.6f", quality.get("mean_kl").asDouble()),
                nats("%.6f", quality.get("p99_kl").asDouble()), 100 * quality.get("top1_agreement").asDouble(),
                nats("%+.6f", quality.get("delta_nll").asDouble()), row.at("/accuracy/all/correct").asInt(),
                quality.get("same_answers").asInt(), within(quality) ? "yes" : "no");
    }

    /// Zero is told from what only rounds to it.
    private static String nats(String format, double value) {
        return value == 0 ? "0" : String.format(Locale.ROOT, format, value).replace('-', '−');
    }

    static boolean within(JsonNode quality) {
        return quality.get("delta_nll").asDouble() <= MOST_DELTA_NLL
                && quality.get("top1_agreement").asDouble() >= LEAST_AGREEMENT;
    }
}

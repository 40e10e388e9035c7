package millrace.streams.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.Map;

/// Writes charts into a directory, and a report between two markers of a document.
public final class BenchDocument {
    static final String BEGIN = "<!-- bench: begin -->";
    static final String END = "<!-- bench: end -->";

    private BenchDocument() {}

    /// Refuses a document without the markers, before anything is measured.
    ///
    /// @throws IllegalArgumentException that says what is missing
    public static void check(Path document) {
        block(document, read(document));
    }

    /// Writes one SVG for each chart; the directory is made if it is not there.
    public static Map<String, Chart> writeCharts(Path directory, BenchReport report) {
        Map<String, Chart> charts = BenchCharts.of(report);
        try {
            Files.createDirectories(directory);
            for (Map.Entry<String, Chart> chart : charts.entrySet()) {
                Files.writeString(directory.resolve(chart.getKey()), chart.getValue().svg());
            }
        } catch (IOException e) {
            throw new UncheckedIOException(directory + ": cannot write charts there", e);
        }
        return charts;
    }

    /// Replaces what stands between the markers by the date, the command, the charts and the tables.
    ///
    /// @param charts what was drawn, by file
    /// @param folder where those files are, relative to the document, with a slash at its end
    public static void write(Path document, BenchReport report, String command, Map<String, Chart> charts, String folder) {
        String text = read(document);
        int[] block = block(document, text);
        StringBuilder body = new StringBuilder(BEGIN).append("\n\nMeasured on ").append(LocalDate.now())
                .append(" by `").append(command).append("`; median (least to greatest).\n\n");
        charts.forEach((file, chart) ->
                body.append("![").append(chart.title()).append("](").append(folder).append(file).append(")\n\n"));
        body.append(report.markdown()).append('\n');
        try {
            Files.writeString(document, text.substring(0, block[0]) + body + text.substring(block[1]));
        } catch (IOException e) {
            throw new UncheckedIOException(document + ": cannot write it", e);
        }
    }

    private static String read(Path document) {
        try {
            return Files.readString(document);
        } catch (IOException e) {
            throw new UncheckedIOException(document + ": expected a document to write into, cannot read it", e);
        }
    }

    private static int[] block(Path document, String text) {
        int begin = text.indexOf(BEGIN);
        int end = text.indexOf(END);
        if (begin < 0 || end < begin) {
            throw new IllegalArgumentException(
                    document + ": expected the lines " + BEGIN + " and " + END + ", in this order; add them where the results belong");
        }
        return new int[] {begin, end};
    }
}

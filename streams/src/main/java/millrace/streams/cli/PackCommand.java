package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import millrace.engine.ModelPacker;
import millrace.engine.ModelPacker.PackedMatrix;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Writes a checkpoint in another weight format.
@Command(
        name = "pack",
        mixinStandardHelpOptions = true,
        description = "Writes a checkpoint anew in another weight format.",
        footer = {
            "",
            "  packed  BF16 in about 12 bits for each weight, without loss: the same bits in every",
            "          answer. Proved on every weight before the directory appears.",
            "  int8    8.5 bits, rounded in groups of 32; int4: 4.5 bits. See docs/quality.md.",
            "  bf16    back to the usual layout: exact from packed, rounded from int8, int4 and FP8.",
            "",
            "A packed model is new files: a signature of the source does not cover them. Sign it anew",
            "with millrace model sign.",
            "",
            "What is quantised already (INT4, FP8) stays so and is only laid out anew. The new directory",
            "appears under its name when it is complete. Start an interrupted run again, and it",
            "goes on from the files that are finished.",
            "",
            "Examples:",
            "  millrace model pack DIR --format packed --out DIR-packed",
            "  millrace model pack glm-tiny --format int8 --out glm-tiny-int8 --json",
            "",
            "Exit codes: 0 written, 1 the source is refused or cannot be written anew, 2 wrong usage."
        })
final class PackCommand implements Callable<Integer> {
    private static final int WORST = 5;

    @Parameters(
            paramLabel = "DIR",
            description = "Directory with a Hugging Face checkpoint, or glm-tiny, glm-tiny-mtp or kimi-tiny, which come along.")
    String model = "";

    @Option(names = "--format", paramLabel = "FORMAT", required = true, description = "bf16, packed, int8 or int4.")
    String format = "";

    @Option(names = "--out", paramLabel = "DIR2", required = true, description = "The new directory: empty or not there.")
    @Nullable Path out;

    @Option(names = "--json", description = "One JSON object instead of text.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    PackCommand() {}

    @Override
    public Integer call() throws Exception {
        Path target = out;
        if (target == null || !ModelPacker.FORMATS.contains(format)) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--format: expected one of " + String.join(", ", ModelPacker.FORMATS) + ", got \"" + format + "\"");
        }
        ModelPacker.Report report;
        try (LocalModel local = LocalModel.of(model)) {
            report = ModelPacker.pack(local.directory(), format, target, this::progress);
        }
        PrintWriter writer = spec.commandLine().getOut();
        if (json) {
            writer.println(JsonLines.mapper().writeValueAsString(json(report, target)));
        } else {
            print(report, target, writer);
        }
        writer.flush();
        return 0;
    }

    private void progress(long done, long total) {
        PrintWriter err = spec.commandLine().getErr();
        err.println(String.format(
                Locale.ROOT, "%s of %s packed (%.0f %%)", ByteSize.text(done), ByteSize.text(total),
                100.0 * done / Math.max(1, total)));
        err.flush();
    }

    private static Map<String, long[]> byFormat(ModelPacker.Report report) {
        Map<String, long[]> sums = new TreeMap<>();
        for (PackedMatrix matrix : report.matrices()) {
            long[] sum = sums.computeIfAbsent(matrix.format(), f -> new long[3]);
            sum[0] += matrix.weights();
            sum[1] += matrix.bytes();
            sum[2] += matrix.escapes();
        }
        return sums;
    }

    private ObjectNode json(ModelPacker.Report report, Path target) {
        ObjectNode node = JsonLines.mapper().createObjectNode();
        node.put("format", report.format()).put("out", target.toString());
        node.put("source_bytes", report.sourceBytes()).put("bytes", report.bytes());
        node.put("ratio", (double) report.bytes() / report.sourceBytes());
        node.put("bits_per_weight", report.bitsPerWeight());
        node.put("lossless", report.lossless()).put("signed", false);
        node.put("files", report.files()).put("files_resumed", report.resumed());
        ObjectNode formats = node.putObject("formats");
        byFormat(report).forEach((name, sum) -> formats.putObject(name)
                .put("weights", sum[0])
                .put("bytes", sum[1])
                .put("escapes", sum[2]));
        var worst = node.putArray("most_escapes");
        worst(report).forEach(matrix -> worst.addObject()
                .put("tensor", matrix.name())
                .put("escape_share", share(matrix))
                .put("raw_panels", matrix.rawPanels()));
        return node;
    }

    private void print(ModelPacker.Report report, Path target, PrintWriter writer) {
        writer.println(String.format(
                Locale.ROOT, "%s: %s instead of %s (%.1f %%), %.2f bits a weight, %s, %d files%s", target,
                ByteSize.text(report.bytes()), ByteSize.text(report.sourceBytes()),
                100.0 * report.bytes() / report.sourceBytes(), report.bitsPerWeight(),
                report.lossless() ? "without loss" : "rounded: lossy", report.files(),
                report.resumed() == 0 ? "" : ", " + report.resumed() + " of them from before"));
        byFormat(report).forEach((name, sum) -> writer.println(String.format(
                Locale.ROOT, "  %-7s %,d weights in %s, %.3f bits each%s", name, sum[0], ByteSize.text(sum[1]),
                8.0 * sum[1] / sum[0],
                name.equals("packed") ? String.format(Locale.ROOT, ", %.4f %% escapes", 100.0 * sum[2] / sum[0]) : "")));
        writer.println("  not signed: a signature of the source does not cover it; millrace model sign " + target + " --key KEY");
        worst(report).forEach(matrix -> writer.println(String.format(
                Locale.ROOT, "  %.3f %% escapes, %d panels in BF16: %s", 100 * share(matrix), matrix.rawPanels(),
                matrix.name())));
    }

    private static double share(PackedMatrix matrix) {
        return (double) matrix.escapes() / matrix.weights();
    }

    /// Packed matrices with the most escapes, those without any left out.
    private static List<PackedMatrix> worst(ModelPacker.Report report) {
        return report.matrices().stream()
                .filter(matrix -> matrix.escapes() + matrix.rawPanels() > 0)
                .sorted(Comparator.comparingDouble(PackCommand::share).reversed())
                .limit(WORST)
                .toList();
    }
}

package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.Origin;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.audit.AuditExporter;
import millrace.integrity.audit.AuditOptions;
import millrace.streams.ServiceConfig;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit export`: the log for other programs.
@Command(
        name = "export",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = {
            "Verifies the log and writes it, up to the newest checkpoint, as static files that clients of",
            "c2sp.org/tlog-tiles read, or as in-toto statements, one for each record."
        },
        footer = {
            "",
            "Examples:",
            "  millrace audit export --key log.pub --tiles public/",
            "  millrace audit export --key log.pub --intoto records.jsonl",
            "",
            "Exit codes: 0 written, 1 violated (then what was written is not complete), 3 usage or input/output."
        })
final class AuditExportCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--tiles", paramLabel = "DIR", description = "Gets a directory for each log, named by its origin.")
    @Nullable Path tiles;

    @Option(names = "--intoto", paramLabel = "FILE", description = "Gets one in-toto statement a line.")
    @Nullable Path intoto;

    @Option(names = "--partition", paramLabel = "N", description = "Only this partition of the audit topic.")
    @Nullable Integer partition;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    AuditExportCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> export(console));
    }

    private int export(AuditConsole console) throws IOException {
        if (tiles == null && intoto == null) {
            throw new IllegalArgumentException("export: expected --tiles or --intoto, got neither");
        }
        ServiceConfig config = log.client.load();
        AuditOptions options = log.options(config, null, partition, Duration.ZERO, null);
        AuditExporter.Exported exported;
        try (Writer statements = intoto == null ? Writer.nullWriter() : writer(intoto)) {
            exported = AuditExporter.run(options, tiles, leaf -> write(statements, leaf), console.progress());
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
        Refuted violation = exported.log().violation();
        Verdict verdict = violation == null ? Verdict.VERIFIED : violation;
        return console.end("export of %d leaves, %d files".formatted(exported.leaves(), exported.files()), verdict,
                AuditConsole.object().put("leaves", exported.leaves()).put("files", exported.files()));
    }

    private static BufferedWriter writer(Path file) throws IOException {
        return Files.newBufferedWriter(file, StandardCharsets.UTF_8);
    }

    private void write(Writer out, Checked leaf) {
        if (intoto == null) {
            return;
        }
        try {
            out.write(statement(leaf) + "\n");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// A statement whose subject is the leaf: the SHA-256 of its entry behind a zero byte.
    static ObjectNode statement(Checked leaf) {
        ObjectNode line = AuditConsole.object().put("_type", "https://in-toto.io/Statement/v1");
        ObjectNode subject = line.putArray("subject").addObject();
        subject.put("name", leaf.record().getLogOrigin() + "/" + leaf.record().getSeq());
        subject.putObject("digest").put("sha256", leaf.hash().hex());
        line.put("predicateType", "https://%s/attest/inference/v1"
                .formatted(Origin.parse(leaf.record().getLogOrigin()).domain()));
        line.set("predicate", fields(leaf.record()));
        return line;
    }

    private static ObjectNode fields(IndexedRecord record) {
        ObjectNode object = AuditConsole.object();
        for (Schema.Field field : record.getSchema().getFields()) {
            Object value = record.get(field.pos());
            switch (value) {
                case null -> object.putNull(field.name());
                case GenericFixed fixed -> object.put(field.name(), HexFormat.of().formatHex(fixed.bytes()));
                case IndexedRecord inner -> object.set(field.name(), fields(inner));
                case List<?> items -> {
                    ArrayNode array = object.putArray(field.name());
                    items.forEach(item -> array.add(item instanceof GenericFixed fixed
                            ? HexFormat.of().formatHex(fixed.bytes()) : item.toString()));
                }
                case Integer number -> object.put(field.name(), number);
                case Long number -> object.put(field.name(), number);
                default -> object.put(field.name(), value.toString());
            }
        }
        return object;
    }
}

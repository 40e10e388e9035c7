package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Callable;
import millrace.integrity.audit.AuditOptions;
import millrace.integrity.audit.AuditProver;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// `audit prove`: an inclusion proof for who has no access.
@Command(
        name = "prove",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Writes a proof that the log holds the leaf of a request, to be checked without a cluster.",
        footer = {
            "",
            "Example:",
            "  millrace audit prove --partition 0 --request-id r-17 --output r-17.proof",
            "",
            "Exit codes: 0 written, 1 the log is violated, 2 it has no such leaf, or not what its proof needs,",
            "3 usage or input/output."
        })
final class AuditProveCommand implements Callable<Integer> {
    @Mixin
    AuditLogOptions log = new AuditLogOptions();

    @Option(names = "--partition", required = true, paramLabel = "N",
            description = "Partition of the audit topic; a completion states it.")
    int partition;

    @Option(names = "--request-id", required = true, paramLabel = "ID", description = "Request whose leaf to prove.")
    String requestId;

    @Option(names = {"-o", "--output"}, paramLabel = "FILE", description = "Where to write (default: standard output).")
    @Nullable Path output;

    @Option(names = "--json", description = "Prints one JSON object, which holds the proof unless --output is given.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec and requestId
    AuditProveCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> prove(console));
    }

    private int prove(AuditConsole console) throws IOException {
        ServiceConfig config = log.client.load();
        AuditOptions options = log.options(config, null, partition, Duration.ZERO, null);
        AuditProver.Asked asked = AuditProver.prove(
                options, record -> record.getRequestId().equals(requestId), console.progress());
        AuditProver.Proven proven = asked.proven();
        if (proven == null) {
            return console.end("proof", asked.verdict(), AuditConsole.object().put("request_id", requestId));
        }
        String text = proven.proof().encode();
        if (output != null) {
            Files.writeString(output, text, StandardCharsets.UTF_8);
        }
        if (json) {
            ObjectNode line = AuditConsole.object().put("verdict", "ok").put("request_id", requestId)
                    .put("origin", proven.record().getLogOrigin()).put("seq", proven.proof().index())
                    .put("leaf", proven.leaf().hex());
            console.print(output == null ? line.put("proof", text) : line.put("file", output.toString()));
        } else if (output == null) {
            console.say(text.stripTrailing());
        }
        console.note("%s, leaf %s".formatted(proven.place(), proven.leaf().hex()));
        return AuditCommand.OK;
    }
}

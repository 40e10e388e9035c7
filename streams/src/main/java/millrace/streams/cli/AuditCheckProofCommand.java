package millrace.streams.cli;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.integrity.Digest;
import millrace.integrity.NoteKey;
import millrace.integrity.TlogProof;
import millrace.integrity.Verdict;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// `audit check-proof`: checks an inclusion proof with keys only.
@Command(
        name = "check-proof",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Checks a proof without a cluster.",
        footer = {
            "",
            "Example:",
            "  millrace audit check-proof r-17.proof --leaf <64 hex digits> --key log.pub",
            "",
            "Exit codes: 0 ok, 1 the proof does not hold, 3 usage or input/output."
        })
final class AuditCheckProofCommand implements Callable<Integer> {
    @Parameters(index = "0", paramLabel = "FILE", description = "The proof.")
    Path file;

    @Option(names = "--leaf", required = true, paramLabel = "HEX",
            description = "Hash of the leaf: header attest-leaf of the completion, or its field audit.leaf.")
    String leaf;

    @Option(names = "--key", required = true, paramLabel = "VKEY|FILE", description = "Public key of the log. Repeatable.")
    List<String> keys = new ArrayList<>();

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets the fields
    AuditCheckProofCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> check(console));
    }

    private int check(AuditConsole console) throws IOException {
        TlogProof proof = TlogProof.parse(Files.readString(file, StandardCharsets.UTF_8));
        Verdict verdict =
                proof.verify(Digest.ofHex(leaf), AuditLogOptions.keysOf("--key", NoteKey.Kind.LOG, keys));
        return console.end("proof", verdict, AuditConsole.object().put("seq", proof.index()).put("leaf", leaf));
    }
}

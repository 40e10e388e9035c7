package millrace.streams.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.concurrent.Callable;
import millrace.integrity.NoteKey;
import millrace.integrity.NoteSigner;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Makes the key that signs checkpoints, or shows the public half of one.
@Command(
        name = "keygen",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Makes an Ed25519 key file (mode 0600) and prints its public key; auditors need only that.",
        footer = {
            "",
            "Examples:",
            "  millrace audit keygen --name audit.example.com audit.key",
            "  millrace audit keygen --witness --name witness.example.org witness.key",
            "  millrace audit keygen --show audit.key",
            "",
            "Exit codes: 0 made or shown, 3 wrong usage, or the file cannot be read or written."
        })
final class KeygenCommand implements Callable<Integer> {
    @Parameters(paramLabel = "FILE", description = "The key file.")
    Path file;

    @Option(names = "--name", paramLabel = "NAME", description = "Name of the key: a domain name of yours (default: ${DEFAULT-VALUE}).")
    String name = "millrace.local";

    @Option(names = "--witness", description = "Makes the key of a witness, which signs checkpoints of others with a time.")
    boolean witness;

    @Option(names = "--json", description = "Prints one JSON object.")
    boolean json;

    @Option(names = "--show", description = "Prints the public key of an existing file instead.")
    boolean show;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets file and spec
    KeygenCommand() {}

    @Override
    public Integer call() {
        AuditConsole console = new AuditConsole(spec, json);
        return console.guarded(() -> make(console));
    }

    private int make(AuditConsole console) throws IOException {
        if (!show && Files.exists(file)) {
            throw new IllegalArgumentException(file + ": exists already; a key that was used must be kept."
                    + " Give another file, or --show to see its public key");
        }
        NoteKey.Kind kind = witness ? NoteKey.Kind.WITNESS : NoteKey.Kind.LOG;
        NoteSigner signer = show ? NoteSigner.load(file) : NoteSigner.loadOrCreate(file, name, kind, new SecureRandom());
        if (json) {
            console.print(AuditConsole.object().put("verdict", "ok").put("vkey", signer.vkey())
                    .put("kind", signer.kind() == NoteKey.Kind.WITNESS ? "witness" : "log"));
        } else {
            console.say(signer.vkey());
        }
        return AuditCommand.OK;
    }
}

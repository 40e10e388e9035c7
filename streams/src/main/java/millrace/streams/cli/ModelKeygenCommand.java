package millrace.streams.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.concurrent.Callable;
import millrace.integrity.model.ModelSigningKey;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Makes the key that signs models, or shows the public half of one.
@Command(
        name = "keygen",
        mixinStandardHelpOptions = true,
        exitCodeOnInvalidInput = AuditCommand.USAGE,
        exitCodeOnExecutionException = AuditCommand.USAGE,
        description = "Makes an elliptic-curve key file (mode 0600) and prints its public key.",
        footer = {
            "",
            "OpenSSL makes the same: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384",
            "-out model.key, and the public key by openssl ec -in model.key -pubout.",
            "",
            "Examples:",
            "  millrace model keygen model.key > model.pub",
            "  millrace model keygen --show model.key",
            "",
            "Exit codes: 0 made or shown, 3 wrong usage, or the file cannot be read or written."
        })
final class ModelKeygenCommand implements Callable<Integer> {
    @Parameters(paramLabel = "FILE", description = "The key file.")
    Path file;

    @Option(names = "--curve", paramLabel = "NAME", description = "p256, p384 or p521 (default: ${DEFAULT-VALUE}).")
    String curve = "p384";

    @Option(names = "--show", description = "Prints the public key of an existing file instead.")
    boolean show;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets file and spec
    ModelKeygenCommand() {}

    @Override
    public Integer call() throws IOException {
        if (!show && Files.exists(file)) {
            throw new IllegalArgumentException(file + ": exists already; models that it signed need it."
                    + " Give another file, or --show to see its public key");
        }
        if (!show) {
            ModelSigningKey.generate(curve, new SecureRandom()).save(file);
        }
        spec.commandLine().getOut().print(ModelSigningKey.load(file).publicPem());
        spec.commandLine().getOut().flush();
        return 0;
    }
}

package millrace.streams.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.Callable;
import millrace.streams.ScratchDirectory;
import millrace.streams.gpu.GpuBundle;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Makes the bundle.
@Command(name = "bundle", mixinStandardHelpOptions = true,
        description = "Packs a Java runtime, the engine, its kernels, their contract tests and benchmarks into one archive "
                + "of less than 60 MB, for a machine with a GPU's driver and nothing else.",
        footer = {
            "",
            "Example:",
            "  millrace gpu bundle --out gpu-bundle.tar.gz",
            "",
            "Exit codes: 0 done, 1 something failed, 2 wrong usage."
        })
final class GpuBundleCommand implements Callable<Integer> {
    @Spec
    @Nullable CommandSpec spec;

    @Option(names = "--out", paramLabel = "FILE", description = "The archive (default: ${DEFAULT-VALUE}).")
    Path out = Path.of(GpuBundle.FOLDER + ".tar.gz");

    @Override
    public Integer call() throws IOException {
        CommandSpec command = java.util.Objects.requireNonNull(spec);
        Path folder = out.toAbsolutePath().getParent();
        if (!out.toString().endsWith(".tar.gz") || folder == null || !Files.isDirectory(folder) || Files.isDirectory(out)) {
            throw new ParameterException(command.commandLine(),
                    "--out: expected a file in an existing folder that ends in .tar.gz, got \"" + out + "\"");
        }
        long bytes;
        try (ScratchDirectory scratch = ScratchDirectory.create("millrace-gpu-bundle-")) {
            bytes = new GpuBundle(Checkout.root(), Progress.lines(command.commandLine().getErr())).write(out, scratch.path());
        }
        var print = command.commandLine().getOut();
        print.println(String.format(Locale.ROOT, "%s: %.1f MB", out, bytes / 1e6));
        print.println("on the machine with the GPU:");
        print.println("  tar -xzf %s && ./%s/millrace gpu check --out results".formatted(out.getFileName(), GpuBundle.FOLDER));
        print.flush();
        return 0;
    }
}

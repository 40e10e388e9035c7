package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import millrace.engine.CudaConfig;
import millrace.streams.ScratchDirectory;
import millrace.streams.gpu.GpuBundle;
import millrace.streams.gpu.GpuCheck;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Runs the checks.
@Command(name = "check", mixinStandardHelpOptions = true,
        description = "Checks the CUDA backend on this machine's device, in under 8 minutes: facts about device and driver, "
                + "the contract of every kernel on the compiled and on the PTX image, then benchmarks beside the device's "
                + "own copy bandwidth. Logs and gpu-check.json go to a folder.",
        exitCodeListHeading = "Exit codes:%n",
        exitCodeList = {"0:all passed", "1:something failed, or no device could be had", "2:wrong usage"},
        footer = {
            "",
            "Examples:",
            "  millrace gpu check --out gpu-check",
            "  millrace gpu check --driver standin --no-bench --json"
        })
final class GpuCheckCommand implements Callable<Integer> {
    /// Where the bundle was unpacked; its launcher says so.
    private static final String BUNDLE = "millrace.bundle";

    @Spec
    @Nullable CommandSpec spec;

    @Option(names = "--out", paramLabel = "DIR", description = "Folder for logs and figures (default: ${DEFAULT-VALUE}).")
    Path out = Path.of("gpu-check");

    @Option(names = "--driver", paramLabel = "NAME",
            description = "system (default), or standin to rehearse on the CPU, where figures say nothing.")
    String driver = "system";

    @Option(names = "--no-bench", negatable = false, description = "Checks only, no benchmarks.")
    boolean noBench;

    @Option(names = "--json", description = "The report as one line of JSON on standard output.")
    boolean json;

    @Override
    public Integer call() throws IOException {
        CommandSpec command = Objects.requireNonNull(spec);
        CudaConfig.Driver which;
        try {
            which = CudaConfig.of(driver).driver();
        } catch (IllegalArgumentException e) {
            throw new ParameterException(command.commandLine(), "--driver: " + e.getMessage(), e);
        }
        if (Files.exists(out) && !Files.isDirectory(out)) {
            throw new ParameterException(command.commandLine(), "--out: expected a folder, got the file \"" + out + "\"");
        }
        Consumer<String> progress = Progress.lines(command.commandLine().getErr());
        String bundle = System.getProperty(BUNDLE);
        if (bundle != null) {
            return check(command, Path.of(bundle), which, progress);
        }
        // As on a bare machine: from an archive of its own.
        try (ScratchDirectory scratch = ScratchDirectory.create("millrace-gpu-check-")) {
            Path folder = scratch.path().resolve(GpuBundle.FOLDER);
            new GpuBundle(Checkout.root(), progress).fill(folder);
            return check(command, folder, which, progress);
        }
    }

    private int check(CommandSpec command, Path bundle, CudaConfig.Driver which, Consumer<String> progress) throws IOException {
        JsonNode report = new GpuCheck(new GpuCheck.Settings(bundle, out, which, !noBench), progress).run();
        var print = command.commandLine().getOut();
        print.println(json
                ? report.toString()
                : (report.path("passed").asBoolean() ? "all passed" : "something FAILED") + "; see " + out);
        print.flush();
        return report.path("passed").asBoolean() ? 0 : 1;
    }
}

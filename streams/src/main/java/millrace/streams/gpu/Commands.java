package millrace.streams.gpu;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/// Runs other programs, each within a time.
final class Commands {
    /// A program that ran too long has this exit status, as with `timeout`.
    static final int TIMED_OUT = 124;

    private Commands() {}

    /// Runs a program that must succeed.
    ///
    /// @throws IllegalStateException with what it printed, if it did not
    static void run(Duration patience, String... command) throws IOException {
        Path output = Files.createTempFile("millrace-command", ".log");
        try {
            int status = run(patience, List.of(command), output, true);
            if (status != 0) {
                throw new IllegalStateException("%s: expected exit status 0, got %d: %s"
                        .formatted(command[0], status, Files.readString(output).strip()));
            }
        } finally {
            Files.deleteIfExists(output);
        }
    }

    /// Runs a program and waits for it; one that runs too long is killed with its children.
    ///
    /// @param output where what it prints goes
    /// @param errors whether what it prints as errors goes there too, else to this process's
    /// @return its exit status, or [#TIMED_OUT]
    static int run(Duration patience, List<String> command, Path output, boolean errors) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command).redirectOutput(output.toFile());
        if (errors) {
            builder.redirectErrorStream(true);
        } else {
            builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        }
        Process process = builder.start();
        try {
            process.getOutputStream().close();
            if (process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS)) {
                return process.exitValue();
            }
            return TIMED_OUT;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return TIMED_OUT;
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
    }
}

package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/// A wall clock of another process that can be set, by libfaketime; the time that passes (`CLOCK_MONOTONIC`) is left alone, as it
/// is when somebody sets the clock of a machine.
final class FakeClock {
    private static final Path[] WHERE = {
        Path.of("/usr/lib/x86_64-linux-gnu/faketime"), Path.of("/usr/lib/aarch64-linux-gnu/faketime"), Path.of("/usr/lib64/faketime"),
        Path.of("/usr/lib/faketime"), Path.of("/usr/local/lib/faketime")
    };

    private final Path offset;

    /// @param file holds how far the clock is off
    FakeClock(Path file) {
        offset = file;
        set(Duration.ZERO);
    }

    /// The library for programs with threads, if this machine has it.
    static Optional<Path> library() {
        return Stream.of(WHERE).map(folder -> folder.resolve("libfaketimeMT.so.1")).filter(Files::isReadable).findFirst();
    }

    /// A condition of tests.
    static boolean isInstalled() {
        return library().isPresent();
    }

    /// Sets the clock so much before or behind the right time; the process sees it within a second.
    void set(Duration ahead) {
        try {
            // In one step: a file that is read while it is written would be a jump of its own.
            Path next = Files.writeString(offset.resolveSibling(offset.getFileName() + ".next"),
                    (ahead.isNegative() ? "" : "+") + ahead.toSeconds() + "\n");
            Files.move(next, offset, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// The variables of a process that has this clock.
    Map<String, String> environment() {
        return Map.of("LD_PRELOAD", library().orElseThrow().toString(), "FAKETIME_TIMESTAMP_FILE", offset.toString(),
                "FAKETIME_CACHE_DURATION", "1", "FAKETIME_DONT_FAKE_MONOTONIC", "1", "DONT_FAKE_MONOTONIC", "1", "NO_FAKE_STAT", "1");
    }
}

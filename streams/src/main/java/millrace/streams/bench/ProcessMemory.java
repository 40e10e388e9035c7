package millrace.streams.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// What this process takes and what the machine has left, as Linux tells; 0 elsewhere.
final class ProcessMemory {
    private static final Path STATUS = Path.of("/proc/self/status");
    private static final Path MEMINFO = Path.of("/proc/meminfo");

    private ProcessMemory() {}

    /// Bytes in memory now.
    static long resident() {
        return field(STATUS, "VmRSS:");
    }

    /// The most bytes that were in memory at any time.
    static long peakResident() {
        return field(STATUS, "VmHWM:");
    }

    static long available() {
        return field(MEMINFO, "MemAvailable:");
    }

    private static long field(Path file, String name) {
        try {
            for (String line : Files.readAllLines(file)) {
                if (line.startsWith(name)) {
                    return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
                }
            }
        } catch (IOException e) {
            return 0; // not Linux
        }
        return 0;
    }
}

package millrace.streams.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// What this process takes, as Linux tells; 0 elsewhere.
final class ProcessMemory {
    private static final Path STATUS = Path.of("/proc/self/status");

    private ProcessMemory() {}

    /// Bytes in memory now.
    static long resident() {
        return field("VmRSS:");
    }

    /// The most bytes that were in memory at any time.
    static long peakResident() {
        return field("VmHWM:");
    }

    private static long field(String name) {
        try {
            for (String line : Files.readAllLines(STATUS)) {
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

package millrace.engine;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// How much memory this process may still take: the smaller of what the machine has available and what its control
/// group leaves.
public final class FreeMemory {
    private static final Path MEMINFO = Path.of("/proc/meminfo");
    private static final Path GROUP = Path.of("/sys/fs/cgroup");

    private FreeMemory() {}

    /// Bytes; where the system tells nothing, as much as the heap may grow to.
    public static long bytes() {
        return bytes(MEMINFO, GROUP);
    }

    static long bytes(Path meminfo, Path group) {
        long available = available(meminfo);
        long limit = number(group.resolve("memory.max"));
        long used = number(group.resolve("memory.current"));
        if (limit >= 0 && used >= 0) {
            available = Math.min(available, Math.max(0, limit - used));
        }
        return available;
    }

    private static long available(Path meminfo) {
        try {
            for (String line : Files.readAllLines(meminfo)) {
                if (line.startsWith("MemAvailable:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
                }
            }
        } catch (IOException | NumberFormatException e) {
            // Not Linux, or not readable: the heap's bound is the only figure there is.
            return Runtime.getRuntime().maxMemory();
        }
        return Runtime.getRuntime().maxMemory();
    }

    /// The number in the file, −1 if there is none ("max" is no number).
    private static long number(Path file) {
        try {
            return Long.parseLong(Files.readString(file).strip());
        } catch (IOException | NumberFormatException e) {
            return -1;
        }
    }
}

package millrace.engine;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.vector.VectorLoops;

/// What this machine and this JVM offer to the engine, as far as the system tells.
///
/// @param processor its name, or `unknown`
/// @param memoryBytes all of the machine's; 0 where the system does not say
/// @param cacheBytes by level (`l1d`, `l2`, `l3`) of one core's view; without those the system does not tell
/// @param vectorBits width of the vectors of the JVM, 0 without the vector module
/// @param backends every set of kernels, with what it is or why it cannot be had
public record Machine(
        String processor,
        int cores,
        long memoryBytes,
        Map<String, Long> cacheBytes,
        String os,
        String jvm,
        int vectorBits,
        List<Kernels> backends) {
    private static final List<String> BACKENDS = List.of("cuda", "native", "vector", "scalar");
    /// Device memory that asking a GPU takes.
    private static final long PROBE_BYTES = 64L << 20;

    private static final Path CACHES = Path.of("/sys/devices/system/cpu/cpu0/cache");

    /// A set of kernels.
    ///
    /// @param detail the instruction set and where it came from, or the reason why it is not available
    public record Kernels(String name, boolean available, String detail) {}

    public Machine {
        cacheBytes = java.util.Collections.unmodifiableMap(new LinkedHashMap<>(cacheBytes));
        backends = List.copyOf(backends);
    }

    /// Asks the system and opens every backend once.
    public static Machine probe() {
        List<Kernels> backends = BACKENDS.stream().map(Machine::kernels).toList();
        boolean vectors = backends.stream().anyMatch(one -> one.name().equals("vector") && one.available());
        return new Machine(
                field(Path.of("/proc/cpuinfo"), "model name", "unknown"),
                Runtime.getRuntime().availableProcessors(),
                kibibytes(field(Path.of("/proc/meminfo"), "MemTotal", "0")),
                caches(CACHES),
                System.getProperty("os.name") + " " + System.getProperty("os.arch"),
                System.getProperty("java.vm.name") + " " + Runtime.version(),
                vectors ? VectorLoops.bits() : 0,
                backends);
    }

    /// Names of the backends that can run here, fastest first.
    public List<String> available() {
        return backends.stream().filter(Kernels::available).map(Kernels::name).toList();
    }

    /// What `auto` takes where no device is wanted.
    public String fastestOfTheProcessor() {
        return available().stream().filter(name -> !name.equals("cuda")).findFirst().orElse("scalar");
    }

    private static Kernels kernels(String name) {
        try (Backend backend = Backend.open(name, 1, CudaConfig.SYSTEM.withMemoryBytes(PROBE_BYTES))) {
            String detail = backend.reason().replaceFirst("^asked for; ", "").replaceFirst(",? ?1 thread$", "");
            return new Kernels(name, true, detail.isEmpty() ? "plain Java, the specification" : detail);
        } catch (BackendException e) {
            return new Kernels(name, false, String.valueOf(e.getMessage()));
        }
    }

    static Map<String, Long> caches(Path directory) {
        Map<String, Long> sizes = new LinkedHashMap<>();
        for (int index = 0; index < 8; index++) {
            Path cache = directory.resolve("index" + index);
            String type = line(cache.resolve("type"));
            if (!type.isEmpty() && !type.equals("Instruction")) {
                String level = "l" + line(cache.resolve("level")) + (type.equals("Data") ? "d" : "");
                sizes.put(level, kibibytes(line(cache.resolve("size")).toLowerCase(Locale.ROOT)));
            }
        }
        return sizes;
    }

    /// Bytes of a text like `2048K` or `16384 kB`; a number alone counts kibibytes too.
    private static long kibibytes(String text) {
        String digits = text.replaceAll("[^0-9]", "");
        long number = digits.isEmpty() ? 0 : Long.parseLong(digits);
        return text.contains("m") ? number << 20 : number << 10;
    }

    private static String field(Path file, String name, String otherwise) {
        for (String line : lines(file)) {
            int colon = line.indexOf(':');
            if (colon > 0 && line.substring(0, colon).strip().equals(name)) {
                return line.substring(colon + 1).strip();
            }
        }
        return otherwise;
    }

    private static String line(Path file) {
        List<String> lines = lines(file);
        return lines.isEmpty() ? "" : lines.getFirst().strip();
    }

    private static List<String> lines(Path file) {
        try {
            return Files.readAllLines(file);
        } catch (IOException e) {
            return new ArrayList<>(); // another system, or not ours to read: the fact is left out
        }
    }
}

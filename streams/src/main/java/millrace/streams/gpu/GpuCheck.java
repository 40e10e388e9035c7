package millrace.streams.gpu;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import millrace.engine.CudaConfig;
import millrace.engine.DeviceFacts;

/// What is checked on a machine with a device: facts, the contract of every kernel on both images, and how fast they are.
///
/// Each part is a process of its own with a time of its own, so that one that ends or hangs does not take the others
/// along; all together stay below eight minutes on a device. What a part prints goes into a file of the output folder, and what was
/// found into `gpu-check.json`.
public final class GpuCheck {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration CONTRACT = Duration.ofSeconds(100);
    private static final Duration BENCH = Duration.ofSeconds(110);
    private static final Duration MODEL = Duration.ofSeconds(60);
    private static final Duration ALL = Duration.ofSeconds(470);
    /// The bounds are those of a device: the stand-in computes on a processor that may have other things to do.
    private static final int STANDIN_TIMES = 5;
    private static final int MOST_LINES = 12;
    private static final String BITS = "BITS ";

    /// @param bundle the unpacked bundle
    /// @param out folder for logs and figures; made if it is not there
    /// @param driver whose driver is used
    /// @param bench whether to measure, after the checks
    public record Settings(Path bundle, Path out, CudaConfig.Driver driver, boolean bench) {}

    /// A model to measure, by the layers of a published one.
    private record Workload(String file, String model, List<String> options) {}

    private static final List<Workload> WORKLOADS = List.of(
            new Workload("llama-8b", "random:llama-8b:6l",
                    List.of("--weights", "bf16,packed,int8,int4", "--kv", "int8", "--batch", "1,8,64", "--prefill", "512")),
            new Workload("llama-8b-context", "random:llama-8b:2l",
                    List.of("--weights", "int4", "--kv", "bf16,int8", "--batch", "1", "--context", "1024,32768", "--prefill", "0")),
            new Workload("glm-4.5-air", "random:glm-4.5-air:2l",
                    List.of("--weights", "bf16,int4", "--kv", "int8", "--batch", "1,16,64", "--prefill", "512")),
            new Workload("kimi-k2", "random:kimi-k2:2l",
                    List.of("--weights", "bf16,int4", "--kv", "fp8", "--batch", "1,16,64", "--prefill", "512")));

    /// The stand-in is for trying this out: it is slow.
    private static final List<Workload> REHEARSAL = List.of(new Workload("llama", "random:llama:200k",
            List.of("--weights", "bf16", "--kv", "int8", "--batch", "1,2", "--prefill", "16", "--context", "16")));

    private final Settings settings;
    private final Consumer<String> progress;
    private final long start = System.nanoTime();
    private final ObjectNode report = JSON.createObjectNode();
    private final ArrayNode parts = report.putArray("parts");
    private boolean passed = true;

    public GpuCheck(Settings settings, Consumer<String> progress) {
        this.settings = settings;
        this.progress = progress;
    }

    /// Runs all parts. A part that fails does not keep the others from running.
    ///
    /// @return the report; `passed` says whether all parts did
    /// @throws millrace.engine.BackendException for a device that cannot be had
    public JsonNode run() throws IOException {
        Files.createDirectories(settings.out());
        report.put("date", Instant.now().toString());
        facts();
        for (String image : List.of("millrace.fatbin", "millrace.ptx")) {
            if (GpuCheck.class.getResource("/millrace/engine/kernel/cuda/" + image) != null) {
                contract(image);
            }
        }
        if (settings.bench()) {
            bench();
        }
        report.put("passed", passed).put("seconds", seconds(start));
        Files.writeString(
                settings.out().resolve("gpu-check.json"),
                JSON.writerWithDefaultPrettyPrinter().writeValueAsString(report) + "\n");
        return report;
    }

    private void facts() {
        DeviceFacts facts = DeviceFacts.of(CudaConfig.of(settings.driver().id()));
        progress.accept("device: " + facts.description());
        if (facts.standin()) {
            progress.accept("device: THIS IS THE STAND-IN: kernels run on the CPU, and no figure says anything of a GPU");
        }
        progress.accept("kernels: " + facts.kernels());
        progress.accept("driver: lacks %d functions that JCuda names%s".formatted(
                facts.missing().size(), facts.missing().isEmpty() ? "" : ": " + String.join(", ", facts.missing())));
        progress.accept(String.format(Locale.ROOT, "copy within the device: %.1f GB/s", facts.copyBytesPerSecond() / 1e9));
        ObjectNode device = report.putObject("device");
        device.put("name", facts.name()).put("description", facts.description()).put("kernels", facts.kernels());
        device.put("standin", facts.standin()).put("copy_gb_per_second", facts.copyBytesPerSecond() / 1e9);
        ArrayNode missing = device.putArray("missing_functions");
        facts.missing().forEach(missing::add);
    }

    private void contract(String image) throws IOException {
        List<String> command = java();
        command.add("-Dmillrace.test.cuda.driver=" + settings.driver().id());
        command.add("-Dmillrace.test.cuda.image=" + image);
        command.addAll(List.of("-cp", path("lib") + File.pathSeparator + path("tests")));
        command.add("millrace.engine.kernel.cuda.DeviceContract");
        Path log = settings.out().resolve("contract-" + image + ".log");
        part("contract of " + image, command, CONTRACT, log, true);
        tail(log);
        compareBits(log);
    }

    /// Results whose bits are a device's own must be the same by every image.
    private void compareBits(Path log) throws IOException {
        Map<String, String> found = new TreeMap<>();
        for (String line : Files.readAllLines(log)) {
            if (line.startsWith(BITS)) {
                String[] words = line.substring(BITS.length()).split(" ", 2);
                found.put(words[0], words[1]);
            }
        }
        ObjectNode bits = report.withObject("/bits");
        found.forEach((name, digest) -> {
            String before = bits.path(name).asText(digest);
            if (!before.equals(digest)) {
                passed = false;
                progress.accept("bits of %s: expected %s, as by the other image, got %s".formatted(name, before, digest));
            }
            bits.put(name, digest);
        });
    }

    private void bench() throws IOException {
        boolean standin = isStandIn();
        if (!standin) {
            measure("kernels", BENCH, List.of("kernels", "--rounds", "5"));
        }
        for (Workload one : standin ? REHEARSAL : WORKLOADS) {
            List<String> options = new ArrayList<>(List.of("engine", "--model", one.model(), "--rounds", "3"));
            options.addAll(one.options());
            measure(one.file(), MODEL, options);
        }
    }

    private void measure(String name, Duration patience, List<String> options) throws IOException {
        List<String> command = java();
        command.addAll(List.of("-cp", path("lib"), "millrace.streams.cli.GpuMain", "bench"));
        command.addAll(options);
        command.addAll(List.of("--backends", "cuda", "-D", "engine.cuda.driver=" + settings.driver().id(), "--json"));
        Path log = settings.out().resolve("bench-" + name + ".json");
        if (part("bench of " + name, command, patience, log, false)) {
            List<String> lines = Files.readAllLines(log);
            report.withObject("/benchmarks").set(name, JSON.readTree(lines.isEmpty() ? "{}" : lines.getLast()));
        }
    }

    private boolean isStandIn() {
        return settings.driver() == CudaConfig.Driver.STANDIN;
    }

    private Duration bound(Duration ofDevice) {
        return isStandIn() ? ofDevice.multipliedBy(STANDIN_TIMES) : ofDevice;
    }

    private boolean part(String name, List<String> command, Duration patience, Path log, boolean errors) throws IOException {
        long began = System.nanoTime();
        Duration most = bound(patience);
        Duration left = bound(ALL).minusNanos(began - start);
        ObjectNode part = parts.addObject().put("part", name).put("log", log.getFileName().toString());
        if (left.isNegative()) {
            part.put("status", "left out");
            progress.accept(name + ": left out, the time is over");
            return false;
        }
        progress.accept(name + " ...");
        int status = Commands.run(left.compareTo(most) < 0 ? left : most, command, log, errors);
        boolean good = status == 0;
        String word = good ? "passed" : status == Commands.TIMED_OUT ? "ran too long" : "failed";
        part.put("status", word).put("exit_status", status).put("seconds", seconds(began));
        progress.accept(String.format(Locale.ROOT, "%s: %s, %.1f s", name, word, seconds(began)));
        passed &= good;
        return good;
    }

    /// The end of a log, which says what failed.
    private void tail(Path log) throws IOException {
        List<String> lines = Files.readAllLines(log);
        lines.subList(Math.max(0, lines.size() - MOST_LINES), lines.size()).forEach(line -> progress.accept("  " + line));
    }

    private static List<String> java() {
        return new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "--add-modules", "jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-Xlog:disable",
                "-Xlog:all=warning:stderr"));
    }

    private String path(String folder) {
        return settings.bundle().resolve(folder) + File.separator + "*";
    }

    private static double seconds(long since) {
        return (System.nanoTime() - since) / 1e9;
    }
}

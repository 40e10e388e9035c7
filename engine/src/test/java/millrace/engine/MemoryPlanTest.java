package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/// The plan is a promise to whoever sized the machine: a process of its own keeps it, as the system counts.
class MemoryPlanTest {
    private static final double TOLERANCE = 1.05;

    @Test
    @EnabledOnOs(OS.LINUX)
    void theProcessStaysWithinItsPlan(@TempDir Path dir) throws Exception {
        // 60 million parameters: weights outweigh what the JVM takes.
        DeveloperModels.writeRandomLlama(dir, 1, new DeveloperModels.LlamaShape(512, 12, 8, 2, 2048, 16_000, 2048));
        String[] figures = probe(dir);
        long plan = Long.parseLong(figures[0]);
        long afterLoad = Long.parseLong(figures[1]);
        long afterWork = Long.parseLong(figures[2]);
        assertThat(afterLoad).as("resident after load, plan %d", plan).isLessThanOrEqualTo((long) (plan * TOLERANCE));
        assertThat(afterWork).as("resident after work, plan %d", plan).isLessThanOrEqualTo((long) (plan * TOLERANCE));
    }

    private static String[] probe(Path model) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--add-modules",
                        "jdk.incubator.vector",
                        "--enable-native-access=ALL-UNNAMED",
                        "-Xmx256m",
                        "-XX:+UseSerialGC",
                        "-cp",
                        System.getProperty("java.class.path"),
                        Probe.class.getName(),
                        model.toString())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
        return output.strip().split(" ");
    }

    /// Runs in the other process: prints the plan's total, then the resident bytes after loading and after work.
    static final class Probe {
        private Probe() {}

        public static void main(String[] args) throws IOException {
            EngineConfig config = EngineConfig.of(Path.of(args[0])).withKvBytes(16 << 20).withMaxBatch(4);
            try (Engine engine = Engine.openForIds(config)) {
                long loaded = resident();
                for (int i = 0; i < 4; i++) {
                    var end = new CompletableFuture<GenerationResult>();
                    var prompt = new PromptInput.TokenIds(java.util.Collections.nCopies(300, 5 + i));
                    engine.submit(engine.prepare(GenerationRequest.greedy("r" + i, prompt, 8)), end::complete);
                    end.join();
                }
                System.out.println(engine.card().memory().total() + " " + loaded + " " + resident());
            }
        }

        private static long resident() throws IOException {
            List<String> status = Files.readAllLines(Path.of("/proc/self/status"));
            for (String line : status) {
                if (line.startsWith("VmRSS:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
                }
            }
            throw new IllegalStateException("no VmRSS in /proc/self/status");
        }
    }
}

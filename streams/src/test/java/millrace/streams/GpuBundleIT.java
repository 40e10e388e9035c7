package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import millrace.streams.gpu.GpuBundle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The archive for a machine with a GPU, unpacked and run here with an empty environment: nothing of this machine helps it,
/// but for the stand-in, which it brings.
@Timeout(1800)
class GpuBundleIT {
    private static final Duration PATIENCE = Duration.ofMinutes(25);

    @TempDir
    Path dir;

    @Test
    void theBundleChecksADeviceWithNothingElseAround() throws IOException, InterruptedException {
        assumeTrue(
                GpuBundle.class.getResource("/millrace/engine/kernel/cuda/libcuda-standin.so") != null,
                "built without a C++ compiler");
        Path archive = dir.resolve("bundle.tar.gz");
        long bytes = new GpuBundle(Path.of("..").toAbsolutePath().normalize(), line -> {}).write(archive, Files.createDirectory(dir.resolve("scratch")));
        assertThat(bytes).isBetween(1_000_000L, GpuBundle.MOST_BYTES);
        run(Duration.ofMinutes(1), "tar", "-C", dir.toString(), "-xzf", archive.toString());

        run(PATIENCE, dir.resolve(GpuBundle.FOLDER).resolve("millrace").toString(),
                "gpu", "check", "--driver", "standin", "--out", dir.resolve("out").toString());

        JsonNode report = new ObjectMapper().readTree(dir.resolve("out/gpu-check.json").toFile());
        assertThat(report.path("passed").asBoolean()).isTrue();
        assertThat(report.path("device").path("standin").asBoolean()).isTrue();
        assertThat(report.path("device").path("missing_functions")).isEmpty();
        assertThat(report.path("parts")).hasSizeGreaterThanOrEqualTo(2)
                .allSatisfy(part -> assertThat(part.path("status").asText()).isEqualTo("passed"));
        assertThat(report.path("bits").path("bf16").asText()).hasSize(64);
        assertThat(report.path("benchmarks").path("llama").path("results")).isNotEmpty();
    }

    private void run(Duration patience, String... command) throws IOException, InterruptedException {
        Path log = dir.resolve("log");
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile());
        builder.environment().clear();
        builder.environment().put("PATH", "/usr/bin:/bin");
        builder.environment().put("HOME", dir.toString());
        Process process = builder.start();
        try {
            assertThat(process.waitFor(patience.toSeconds(), TimeUnit.SECONDS)).as(Files.readString(log)).isTrue();
            assertThat(process.exitValue()).as(Files.readString(log)).isZero();
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
    }
}

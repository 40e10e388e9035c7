package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import jcuda.JCudaVersion;
import jcuda.LibUtils;
import millrace.engine.CudaConfig;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// In processes of their own: a process loads JCuda once.
@Timeout(60)
final class CudaLibrariesTest {
    private static final String JCUDA = LibUtils.createLibraryFileName(
            LibUtils.createPlatformLibraryName("JCudaDriver-" + JCudaVersion.get()));

    @TempDir
    Path home;

    @TempDir
    Path temporary;

    @BeforeEach
    void needsTheStandin() throws IOException {
        StandIn.assumePresent();
        // What JCuda by itself would load: on a shared machine anybody can have put it there.
        Files.writeString(temporary.resolve(JCUDA), "not a library");
    }

    @Test
    void librariesShouldBeKeptWhereOnlyTheirOwnerCanWrite() throws IOException, InterruptedException {
        assertThat(open(home)).isEqualTo("opened " + temporary);
        List<Path> folders;
        try (Stream<Path> found = Files.list(home.resolve(".cache/millrace"))) {
            folders = found.toList();
        }
        assertThat(folders).hasSize(2);
        for (Path folder : folders) {
            assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(folder))).isEqualTo("rwx------");
        }
        assertThat(temporary.resolve(JCUDA)).hasContent("not a library");
        // They are found there the next time.
        assertThat(open(home)).isEqualTo("opened " + temporary);
    }

    @Test
    void withoutACacheAFreshFolderShouldServeAndGo() throws IOException, InterruptedException {
        Path file = Files.createFile(home.resolve("a-file"));
        assertThat(open(file)).isEqualTo("opened " + temporary);
        assertThat(temporary.resolve(JCUDA)).hasContent("not a library");
        try (Stream<Path> left = Files.list(temporary)) {
            assertThat(left.map(path -> path.getFileName().toString()))
                    .filteredOn(name -> !name.startsWith("hsperfdata"))
                    .containsExactly(JCUDA);
        }
    }

    private String open(Path userHome) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--enable-native-access=ALL-UNNAMED",
                        "-Xmx128m",
                        "-XX:+UseSerialGC",
                        "-Duser.home=" + userHome,
                        "-Djava.io.tmpdir=" + temporary,
                        "-cp",
                        System.getProperty("java.class.path"),
                        Opening.class.getName())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return output.strip();
    }

    /// Runs in the other process: opens a device, and says where temporary files belong afterwards.
    static final class Opening {
        private Opening() {}

        public static void main(String[] args) {
            try (Gpu gpu = Gpu.open(CudaConfig.STANDIN.withMemoryBytes(1 << 20))) {
                gpu.synchronize();
                System.out.println("opened " + System.getProperty("java.io.tmpdir"));
            }
        }
    }
}

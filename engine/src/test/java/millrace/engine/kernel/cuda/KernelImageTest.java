package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// The committed PTX serves every build without nvcc, so it must be that of the sources beside it.
class KernelImageTest {
    private static final Path SOURCES = Path.of("src", "main", "cuda");
    private static final String FIRST_LINE = "// SHA-256 of the sources: ";

    @Test
    void theCommittedPtxIsThatOfTheSources() throws IOException, NoSuchAlgorithmException {
        String first;
        try (Stream<String> lines = Files.lines(SOURCES.resolve("millrace.ptx"))) {
            first = lines.findFirst().orElse("");
        }
        assertThat(first)
                .as("millrace.ptx is not of these sources; run: sh engine/src/main/cuda/build.sh --ptx")
                .isEqualTo(FIRST_LINE + digest(sources(".h"), sources(".cu")));
    }

    @Test
    void theImageInTheJarIsThatOfTheSources() throws IOException, NoSuchAlgorithmException {
        byte[] image = CudaLibraries.resource("millrace.ptx");
        assertThat(image).as("built with -Dcuda.skip").isNotNull();
        assertThat(new String(image, StandardCharsets.UTF_8))
                .startsWith(FIRST_LINE + digest(sources(".h"), sources(".cu")) + "\n.version 8.0\n.target sm_80\n");
    }

    private static List<Path> sources(String suffix) throws IOException {
        try (Stream<Path> files = Files.list(SOURCES)) {
            return files.filter(f -> f.toString().endsWith(suffix)).sorted().toList();
        }
    }

    /// As build.sh computes it: each file's name in a line of its own, then its content without carriage returns.
    private static String digest(List<Path> headers, List<Path> kernels) throws IOException, NoSuchAlgorithmException {
        var all = new ByteArrayOutputStream();
        for (Path file : Stream.concat(headers.stream(), kernels.stream()).toList()) {
            all.writeBytes((file.getFileName() + "\n").getBytes(StandardCharsets.UTF_8));
            for (byte b : Files.readAllBytes(file)) {
                if (b != '\r') {
                    all.write(b);
                }
            }
        }
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(all.toByteArray()));
    }
}

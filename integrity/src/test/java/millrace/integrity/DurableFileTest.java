package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DurableFileTest {
    @TempDir
    Path directory;

    @Test
    void replacesAFileAndLeavesNothingBeside() throws IOException {
        Path file = directory.resolve("state");
        DurableFile.write(file, new byte[] {1, 2, 3});
        DurableFile.write(file, new byte[] {4});
        assertThat(Files.readAllBytes(file)).containsExactly(4);
        assertThat(names()).containsExactly("state");
    }

    @Test
    void whatIsThereStaysIfItCannotBeReplaced() throws IOException {
        Path taken = Files.createDirectory(directory.resolve("state"));
        Files.writeString(taken.resolve("inside"), "x");
        assertThatThrownBy(() -> DurableFile.write(taken, new byte[] {1})).isInstanceOf(IOException.class);
        assertThat(Files.readString(taken.resolve("inside"))).isEqualTo("x");
        assertThat(names()).containsExactly("state");
    }

    private List<String> names() throws IOException {
        try (var files = Files.list(directory)) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }
}

package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NoteKeyFileTest {
    private static final SecureRandom RANDOM = new SecureRandom();

    @TempDir
    Path directory;

    @BeforeEach
    void needsPosix() {
        assumeThat(directory.getFileSystem().supportedFileAttributeViews()).contains("posix");
    }

    @Test
    void createsAFileForItsOwnerAloneAndLoadsItAgain() throws IOException {
        Path file = directory.resolve("keys/log.key");
        NoteSigner made = NoteSigner.loadOrCreate(file, "example.com/log", RANDOM);
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file))).isEqualTo("rw-------");
        assertThat(NoteSigner.loadOrCreate(file, "another", RANDOM).vkey()).isEqualTo(made.vkey());
        assertThat(NoteSigner.load(file).vkey()).isEqualTo(made.vkey());
        try (Stream<Path> files = Files.list(file.getParent())) {
            assertThat(files).as("no drafts left").containsExactly(file);
        }
    }

    @Test
    void refusesAFileThatOthersMayRead() throws IOException {
        Path file = directory.resolve("log.key");
        NoteSigner.loadOrCreate(file, "example.com/log", RANDOM);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        assertThatThrownBy(() -> NoteSigner.load(file)).isInstanceOf(IntegrityException.class)
                .hasMessage(("key file %s: mode: expected rw------- or less, got rw-r-----;"
                        + " make a new key, or run chmod 600").formatted(file))
                .extracting("code").isEqualTo("KEY_FILE_MODE");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("r--------"));
        assertThat(NoteSigner.load(file).name()).isEqualTo("example.com/log");
    }

    @Test
    void refusesAFileThatIsNoKey() throws IOException {
        Path file = directory.resolve("log.key");
        Files.createFile(file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(file, "not a key");
        assertThatThrownBy(() -> NoteSigner.load(file))
                .hasMessage("key file %s: key: expected a text that begins with PRIVATE+KEY+".formatted(file))
                .extracting("code").isEqualTo("KEY_FILE_FORMAT");
        Files.writeString(file, "x".repeat(5000));
        assertThatThrownBy(() -> NoteSigner.load(file))
                .hasMessage("key file %s: expected at most 4096 bytes, got 5000".formatted(file));
    }

    @Test
    void givesEveryoneTheSameKeyWhenManyStartAtOnce() throws Exception {
        Path file = directory.resolve("log.key");
        try (ExecutorService threads = Executors.newFixedThreadPool(8)) {
            List<Future<String>> keys = IntStream.range(0, 8)
                    .mapToObj(i -> threads.submit(() -> NoteSigner.loadOrCreate(file, "k" + i, RANDOM).vkey()))
                    .toList();
            String first = keys.getFirst().get();
            for (Future<String> key : keys) {
                assertThat(key.get()).isEqualTo(first);
            }
        }
    }
}

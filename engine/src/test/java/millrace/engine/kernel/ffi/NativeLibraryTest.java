package millrace.engine.kernel.ffi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class NativeLibraryTest {
    @TempDir
    Path cache;

    @TempDir
    Path temporary;

    private byte[] library = new byte[0];
    private String digest = "";

    @BeforeEach
    void read() throws IOException {
        String resource = "/native/" + platform() + "/libmillrace.so";
        try (InputStream in = NativeLibrary.class.getResourceAsStream(resource);
                InputStream sum = NativeLibrary.class.getResourceAsStream(resource + ".sha256")) {
            assumeTrue(in != null && sum != null, "built without a C compiler");
            library = in.readAllBytes();
            digest = new String(sum.readAllBytes(), StandardCharsets.US_ASCII).strip();
        }
    }

    private static String platform() {
        return NativeLibrary.platform(System.getProperty("os.name"), System.getProperty("os.arch"));
    }

    @Test
    void shouldBeUnpackedOnceForItsOwnerAlone() throws IOException {
        Path file = cache.resolve("millrace").resolve(digest.substring(0, 16)).resolve("libmillrace.so");
        assertThat(NativeLibrary.open(library, digest, cache, temporary).reason()).isEqualTo("from " + file);
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file.getParent()))).isEqualTo("rwx------");
        Object first = Files.readAttributes(file, "unix:ino").get("ino");
        assertThat(NativeLibrary.open(library, digest, cache, temporary).symbols()).isNotNull();
        assertThat(Files.readAttributes(file, "unix:ino").get("ino")).isEqualTo(first);
        assertThat(temporary).isEmptyDirectory();
        try (Stream<Path> files = Files.list(file.getParent())) {
            assertThat(files).containsExactly(file);
        }
    }

    @Test
    void changedFileInTheCacheShouldBeReplaced() throws IOException {
        Path file = cache.resolve("millrace").resolve(digest.substring(0, 16)).resolve("libmillrace.so");
        NativeLibrary.open(library, digest, cache, temporary);
        // A new file: the old one is mapped by now.
        Files.delete(file);
        Files.writeString(file, "something else");
        assertThat(NativeLibrary.open(library, digest, cache, temporary).symbols()).isNotNull();
        assertThat(Files.readAllBytes(file)).isEqualTo(library);
    }

    @Test
    void folderOpenToOthersShouldNotBeTrusted() throws IOException {
        Path folder = cache.resolve("millrace").resolve(digest.substring(0, 16));
        Files.createDirectories(folder);
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
        assertThat(NativeLibrary.open(library, digest, cache, temporary).reason()).isEqualTo("from a temporary file");
        assertThat(folder).isEmptyDirectory();
        assertThat(temporary).isEmptyDirectory();
    }

    @Test
    void corruptedResourceShouldBeRefused() {
        library[100] ^= 1;
        NativeLibrary got = NativeLibrary.open(library, digest, cache, temporary);
        assertThat(got.symbols()).isNull();
        assertThat(got.reason()).matches("library: expected SHA-256 " + digest + ", got [0-9a-f]{64}");
        assertThat(cache).isEmptyDirectory();
    }

    @Test
    void whereNothingCanBeOpenedTheReasonShouldNameBothPlaces() throws IOException {
        // A file in place of a folder: nothing can be unpacked below it, not even by root.
        Path blocked = Files.createFile(cache.resolve("file"));
        NativeLibrary got = NativeLibrary.open(library, digest, blocked, blocked);
        assertThat(got.symbols()).isNull();
        assertThat(got.reason())
                .startsWith("library: it can be opened nowhere: " + blocked)
                .endsWith("; is a directory read-only or mounted noexec?");
    }

    @Test
    void platformShouldBeNamedAsTheBuildNamesIt() {
        assertThat(NativeLibrary.platform("Linux", "amd64")).isEqualTo("linux-x86_64");
        assertThat(NativeLibrary.platform("Linux", "aarch64")).isEqualTo("linux-aarch64");
        assertThat(NativeLibrary.platform("Mac OS X", "aarch64")).isEqualTo("mac_os_x-aarch64");
    }
}

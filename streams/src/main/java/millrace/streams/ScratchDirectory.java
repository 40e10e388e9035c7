package millrace.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/// A temporary directory that goes with whoever made it.
public final class ScratchDirectory implements AutoCloseable {
    private final Path path;

    private ScratchDirectory(Path path) {
        this.path = path;
    }

    /// @param prefix of the directory's name
    public static ScratchDirectory create(String prefix) {
        try {
            return new ScratchDirectory(Files.createTempDirectory(prefix));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot create a temporary directory; set java.io.tmpdir to one that can be written", e);
        }
    }

    public Path path() {
        return path;
    }

    /// Deletes the directory with all that is in it. What cannot be deleted is left to the system's own clean-up of
    /// temporary files: the work is done, and its result must not be lost for it.
    @Override
    public void close() {
        try (Stream<Path> all = Files.walk(path)) {
            List<Path> deepestFirst = all.sorted(Comparator.reverseOrder()).toList();
            for (Path entry : deepestFirst) {
                Files.deleteIfExists(entry);
            }
        } catch (IOException | UncheckedIOException e) {
            // Said above: not worth a failure.
        }
    }
}

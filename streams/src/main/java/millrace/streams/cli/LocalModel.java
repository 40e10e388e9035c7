package millrace.streams.cli;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import millrace.streams.Models;
import org.jspecify.annotations.Nullable;

/// The directory that a model argument names. A bundled model is unpacked into a temporary one, which is removed again
/// when this is closed: an open engine does not need it any more.
final class LocalModel implements AutoCloseable {
    private final Path directory;
    private final @Nullable Path scratch;

    private LocalModel(Path directory, @Nullable Path scratch) {
        this.directory = directory;
        this.scratch = scratch;
    }

    /// @param model a directory, or the name of a bundled model where no directory has that name
    static LocalModel of(String model) {
        if (Files.isDirectory(Path.of(model)) || !Models.bundled().contains(model)) {
            return new LocalModel(Path.of(model), null);
        }
        try {
            Path scratch = Files.createTempDirectory("millrace-model-");
            return new LocalModel(Models.directory(model, scratch), scratch);
        } catch (IOException e) {
            throw new UncheckedIOException("bundled model " + model + ": no temporary directory can be made", e);
        }
    }

    Path directory() {
        return directory;
    }

    @Override
    public void close() {
        if (scratch == null) {
            return;
        }
        try (Stream<Path> entries = Files.walk(scratch)) {
            List<Path> deepestFirst = entries.sorted(Comparator.reverseOrder()).toList();
            for (Path entry : deepestFirst) {
                Files.deleteIfExists(entry);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(scratch + ": the unpacked model can not be removed", e);
        }
    }
}

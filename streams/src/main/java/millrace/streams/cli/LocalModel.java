package millrace.streams.cli;

import java.nio.file.Files;
import java.nio.file.Path;
import millrace.streams.Models;
import millrace.streams.ScratchDirectory;
import org.jspecify.annotations.Nullable;

/// The directory that a model argument names. A bundled model is unpacked into a temporary one, which is removed again
/// when this is closed: an open engine does not need it any more.
final class LocalModel implements AutoCloseable {
    private final Path directory;
    private final @Nullable ScratchDirectory scratch;

    private LocalModel(Path directory, @Nullable ScratchDirectory scratch) {
        this.directory = directory;
        this.scratch = scratch;
    }

    /// @param model a directory, or the name of a bundled model where no directory has that name
    static LocalModel of(String model) {
        if (Files.isDirectory(Path.of(model)) || !Models.bundled().contains(model)) {
            return new LocalModel(Path.of(model), null);
        }
        ScratchDirectory scratch = ScratchDirectory.create("millrace-model-");
        return new LocalModel(Models.directory(model, scratch.path()), scratch);
    }

    Path directory() {
        return directory;
    }

    @Override
    public void close() {
        if (scratch != null) {
            scratch.close();
        }
    }
}

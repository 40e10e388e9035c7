package millrace.streams.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.jspecify.annotations.Nullable;

/// A file of JSON lines that is there whole or not at all: lines go to a temporary file beside it, which takes its name
/// when [#commit] is called. `-` writes to standard output at once.
final class OutputFile implements AutoCloseable {
    private final @Nullable Path target;
    private final @Nullable Path temporary;
    private final Writer writer;

    private OutputFile(@Nullable Path target, @Nullable Path temporary, Writer writer) {
        this.target = target;
        this.temporary = temporary;
        this.writer = writer;
    }

    static OutputFile open(String file) throws IOException {
        if (file.equals("-")) {
            return new OutputFile(null, null, new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
        }
        Path target = Path.of(file).toAbsolutePath();
        Path folder = target.getParent();
        if (folder == null || !Files.isDirectory(folder) || Files.isDirectory(target)) {
            throw new IllegalArgumentException(
                    file + ": expected a file in an existing folder; create the folder or choose another path");
        }
        Path temporary = folder.resolve("." + target.getFileName() + "." + ProcessHandle.current().pid() + ".tmp");
        // For the user who interrupts the command.
        temporary.toFile().deleteOnExit();
        return new OutputFile(target, temporary, Files.newBufferedWriter(temporary));
    }

    void write(JsonNode line) {
        try {
            writer.write(JsonLines.mapper().writeValueAsString(line));
            writer.write('\n');
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of JSON nodes can be written", e);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Makes the file visible under its name.
    void commit() throws IOException {
        writer.flush();
        if (target == null || temporary == null) {
            return;
        }
        writer.close();
        // A pipe or device is written to, not replaced.
        if (Files.exists(target) && !Files.isRegularFile(target)) {
            try (var out = Files.newOutputStream(target)) {
                Files.copy(temporary, out);
            }
            return;
        }
        try {
            Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException e) {
            Files.move(temporary, target, StandardCopyOption.REPLACE_EXISTING);
        }
    }

    /// Removes what was not committed.
    @Override
    public void close() throws IOException {
        if (temporary != null) {
            writer.close();
            Files.deleteIfExists(temporary);
        }
    }
}

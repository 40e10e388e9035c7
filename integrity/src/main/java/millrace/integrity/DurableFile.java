package millrace.integrity;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/// Writes files whole or not at all: a crash leaves what was there before, or all of what is written.
public final class DurableFile {
    private DurableFile() {}

    /// Puts these bytes in the place of the file. They and their name are on the disk when this returns. Nobody else may
    /// write the file meanwhile.
    ///
    /// @throws IOException if that was not possible; the file is then what it was
    public static void write(Path file, byte[] bytes) throws IOException {
        Path place = file.toAbsolutePath();
        Path draft = place.resolveSibling("." + place.getFileName() + ".new");
        try (FileChannel out = FileChannel.open(draft, StandardOpenOption.CREATE, StandardOpenOption.WRITE,
                StandardOpenOption.TRUNCATE_EXISTING)) {
            ByteBuffer rest = ByteBuffer.wrap(bytes);
            while (rest.hasRemaining()) {
                out.write(rest);
            }
            out.force(true);
        }
        try {
            Files.move(draft, place, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(draft);
        }
        forceDirectory(place.resolveSibling(""));
    }

    /// The rename itself must be on the disk too; where directories cannot be opened, the file system sees to it.
    private static void forceDirectory(Path directory) {
        try (FileChannel opened = FileChannel.open(directory, StandardOpenOption.READ)) {
            opened.force(true);
        } catch (IOException | UnsupportedOperationException notPossible) {
            return;
        }
    }
}

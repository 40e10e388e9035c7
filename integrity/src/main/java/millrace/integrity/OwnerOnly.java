package millrace.integrity;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.EnumSet;
import java.util.Set;

/// Files with secrets: readable by their owner alone.
///
/// A file that others may read is refused rather than repaired: the secret may already be known. Where a file system has
/// no POSIX permissions, its access rules are the operator's.
public final class OwnerOnly {
    private static final Set<PosixFilePermission> MODE =
            EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE);

    private OwnerOnly() {}

    /// @throws IntegrityException `KEY_FILE_MODE`
    public static void require(Path file) throws IOException {
        if (isPosix(file)) {
            Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
            if (!MODE.containsAll(permissions)) {
                throw new IntegrityException("KEY_FILE_MODE",
                        "key file %s: mode: expected rw------- or less, got %s; make a new key, or run chmod 600"
                                .formatted(file, PosixFilePermissions.toString(permissions)));
            }
        }
    }

    /// Writes a whole file under another name, then links it to its own: nobody ever reads half a secret, and of two
    /// processes that write at once one succeeds.
    ///
    /// @throws FileAlreadyExistsException if the file is there
    public static void create(Path file, byte[] secret) throws IOException {
        Path directory = file.toAbsolutePath().getParent();
        Files.createDirectories(directory);
        FileAttribute<?>[] mode = isPosix(directory)
                ? new FileAttribute<?>[] {PosixFilePermissions.asFileAttribute(MODE)}
                : new FileAttribute<?>[0];
        Path draft = Files.createTempFile(directory, file.getFileName() + ".", ".new", mode);
        try {
            try (FileChannel out = FileChannel.open(draft, StandardOpenOption.WRITE)) {
                ByteBuffer bytes = ByteBuffer.wrap(secret);
                while (bytes.hasRemaining()) {
                    out.write(bytes);
                }
                out.force(true);
            }
            publish(draft, file);
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    private static void publish(Path draft, Path file) throws IOException {
        try {
            Files.createLink(file, draft);
        } catch (UnsupportedOperationException noLinks) {
            Files.move(draft, file); // refuses an existing file
        }
    }

    private static boolean isPosix(Path path) {
        return path.getFileSystem().supportedFileAttributeViews().contains("posix");
    }
}

package millrace.integrity;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.EnumSet;
import java.util.Set;

/// The file of a [NoteSigner]: one line, `PRIVATE+KEY+name+id+base64`, readable by its owner alone.
///
/// A file that others may read is refused rather than repaired: the key may already be known. Where a file system has
/// no POSIX permissions, its access rules are the operator's.
final class NoteKeyFile {
    private static final int MAX_BYTES = 4096;
    private static final Set<PosixFilePermission> OWNER_ONLY =
            EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE);

    private NoteKeyFile() {}

    static NoteSigner load(Path file) throws IOException {
        if (isPosix(file)) {
            Set<PosixFilePermission> permissions = Files.getPosixFilePermissions(file);
            if (!OWNER_ONLY.containsAll(permissions)) {
                throw new IntegrityException("KEY_FILE_MODE",
                        "key file %s: mode: expected rw------- or less, got %s; make a new key, or run chmod 600"
                                .formatted(file, PosixFilePermissions.toString(permissions)));
            }
        }
        long size = Files.size(file);
        if (size > MAX_BYTES) {
            throw new IntegrityException("KEY_FILE_FORMAT",
                    "key file %s: expected at most 4096 bytes, got %d".formatted(file, size));
        }
        String text = Files.readString(file, StandardCharsets.UTF_8);
        try {
            return NoteSigner.parse(text);
        } catch (IntegrityException e) {
            throw new IntegrityException("KEY_FILE_FORMAT", "key file %s: %s".formatted(file, e.getMessage()), e);
        }
    }

    static NoteSigner loadOrCreate(Path file, String name, NoteKey.Kind kind, SecureRandom random)
            throws IOException {
        try {
            return load(file);
        } catch (NoSuchFileException absent) {
            return create(file, name, kind, random);
        }
    }

    /// Writes a whole file under another name, then links it to its own: nobody ever reads half a key, and of two
    /// processes that start together one creates and the other loads.
    private static NoteSigner create(Path file, String name, NoteKey.Kind kind, SecureRandom random)
            throws IOException {
        NoteSigner signer = NoteSigner.generate(name, kind, random);
        Path directory = file.toAbsolutePath().getParent();
        Files.createDirectories(directory);
        FileAttribute<?>[] mode = isPosix(directory)
                ? new FileAttribute<?>[] {PosixFilePermissions.asFileAttribute(OWNER_ONLY)}
                : new FileAttribute<?>[0];
        Path draft = Files.createTempFile(directory, file.getFileName() + ".", ".new", mode);
        try {
            try (FileChannel out = FileChannel.open(draft, StandardOpenOption.WRITE)) {
                ByteBuffer bytes = StandardCharsets.UTF_8.encode(signer.secretText() + "\n");
                while (bytes.hasRemaining()) {
                    out.write(bytes);
                }
                out.force(true);
            }
            publish(draft, file);
            return signer;
        } catch (FileAlreadyExistsException another) {
            return load(file);
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

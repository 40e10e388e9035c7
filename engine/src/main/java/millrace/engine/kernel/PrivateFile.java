package millrace.engine.kernel;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.Set;

/// Bytes of the jar as a file, for what the system opens by path only, where no other user can put a file of theirs.
///
/// The file is kept below the user's cache directory, in a folder named by its digest that nobody else may enter, and is
/// written once per version. Where that cannot be had, [#temporary] makes a fresh folder that is deleted on closing.
///
/// @param path the file; it held the bytes when it was handed out
/// @param kept whether it stays
public record PrivateFile(Path path, boolean kept) implements AutoCloseable {
    private static final Set<PosixFilePermission> OWNER_ONLY =
            EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_EXECUTE);

    /// The user's cache directory.
    public static Path userCache() {
        return Path.of(System.getProperty("user.home"), ".cache");
    }

    /// Where a file of these bytes is kept.
    public static Path place(byte[] content, String name, Path cache) {
        return cache.resolve("millrace").resolve(sha256(content).substring(0, 16)).resolve(name);
    }

    /// The file in the cache, written if it is not there or holds something else. Another process may do the same at the
    /// same time: the file is written aside and put into place whole.
    ///
    /// @throws IOException if it cannot be written, or others can write where it lies
    public static PrivateFile kept(byte[] content, String name, Path cache) throws IOException {
        Path file = place(content, name, cache);
        Path folder = file.getParent();
        Files.createDirectories(folder.getParent());
        if (!Files.isDirectory(folder)) {
            Files.createDirectories(folder, PosixFilePermissions.asFileAttribute(OWNER_ONLY));
        }
        if (!Files.getPosixFilePermissions(folder).equals(OWNER_ONLY) || !Files.getOwner(folder).equals(self(folder))) {
            throw new IOException("expected a folder of this user alone, got " + Files.getOwner(folder) + " "
                    + PosixFilePermissions.toString(Files.getPosixFilePermissions(folder)));
        }
        if (Files.isRegularFile(file) && sha256(Files.readAllBytes(file)).equals(sha256(content))) {
            return new PrivateFile(file, true);
        }
        Path aside = Files.createTempFile(folder, name, ".new");
        try {
            Files.write(aside, content);
            Files.move(aside, file, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(aside);
        }
        return new PrivateFile(file, true);
    }

    /// A file in a fresh folder of its own.
    ///
    /// @param directory for temporary files
    public static PrivateFile temporary(byte[] content, String name, Path directory) throws IOException {
        PrivateFile file = new PrivateFile(Files.createTempDirectory(directory, "millrace-native").resolve(name), false);
        try {
            Files.write(file.path, content);
        } catch (IOException e) {
            file.close();
            throw e;
        }
        return file;
    }

    /// Who this process is, as the owner of a file that it makes.
    private static Object self(Path folder) throws IOException {
        Path probe = Files.createTempFile(folder, "owner", null);
        try {
            return Files.getOwner(probe);
        } finally {
            Files.delete(probe);
        }
    }

    /// SHA-256 in hexadecimal.
    public static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }

    /// Deletes what is not kept: an open file needs no name.
    @Override
    public void close() {
        if (kept) {
            return;
        }
        try {
            Files.deleteIfExists(path);
            Files.deleteIfExists(path.getParent());
        } catch (IOException e) {
            // It is in the directory for temporary files, whose owner clears it.
            return;
        }
    }
}

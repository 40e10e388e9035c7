package millrace.engine.kernel.ffi;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// The kernel library of the jar, unpacked and opened; or the reason why it is not.
///
/// A library can only be opened as a file. It is unpacked once per version into the user's cache directory, in a folder
/// named by its digest that nobody else may write; where that fails, into a fresh folder below the directory for
/// temporary files, which is deleted at once, since an open file needs no name. What is opened is what was verified.
///
/// @param symbols null if the library could not be opened
/// @param reason why not; where it was opened from otherwise
record NativeLibrary(@Nullable SymbolLookup symbols, String reason) {
    private static final String FILE = "libmillrace.so";
    private static final Set<PosixFilePermission> OWNER_ONLY =
            EnumSet.of(PosixFilePermission.OWNER_READ, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_EXECUTE);

    /// Opens the library for this platform from the class path.
    static NativeLibrary open() {
        String platform = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
        String resource = "/native/" + platform + "/" + FILE;
        byte[] library;
        byte[] digest;
        try {
            library = read(resource);
            digest = read(resource + ".sha256");
        } catch (IOException e) {
            return unavailable("the resource " + resource + " cannot be read: " + e.getMessage());
        }
        if (library == null || digest == null) {
            return unavailable("no library for " + platform + " in the jar: it was built without a C compiler or for"
                    + " another platform");
        }
        Path home = Path.of(System.getProperty("user.home"));
        Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
        return open(library, new String(digest, StandardCharsets.US_ASCII).strip(), home.resolve(".cache"), temporary);
    }

    /// Opens a library given by its bytes.
    ///
    /// @param expected SHA-256 in hexadecimal
    /// @param cache where unpacked libraries may stay
    /// @param temporary tried if the cache cannot be used
    static NativeLibrary open(byte[] library, String expected, Path cache, Path temporary) {
        String digest = sha256(library);
        if (!digest.equals(expected)) {
            return unavailable("library: expected SHA-256 %s, got %s".formatted(expected, digest));
        }
        List<String> failures = new ArrayList<>();
        Path kept = cache.resolve("millrace").resolve(digest.substring(0, 16)).resolve(FILE);
        try {
            unpack(library, digest, kept);
            return new NativeLibrary(lookup(kept), "from " + kept);
        } catch (IOException | IllegalArgumentException e) {
            failures.add(failure(kept, e));
        }
        Path folder = null;
        try {
            folder = Files.createTempDirectory(temporary, "millrace-native");
            Path file = folder.resolve(FILE);
            Files.write(file, library);
            return new NativeLibrary(lookup(file), "from a temporary file");
        } catch (IOException | IllegalArgumentException e) {
            failures.add(failure(temporary, e));
            return unavailable("library: it can be opened nowhere: " + String.join("; ", failures)
                    + "; is a directory read-only or mounted noexec?");
        } finally {
            delete(folder);
        }
    }

    private static NativeLibrary unavailable(String reason) {
        return new NativeLibrary(null, reason);
    }

    /// The library's folder in the jar, for example `linux-x86_64`.
    static String platform(String os, String arch) {
        String cpu = arch.equals("amd64") ? "x86_64" : arch;
        return os.toLowerCase(Locale.ROOT).replace(' ', '_') + "-" + cpu.toLowerCase(Locale.ROOT);
    }

    private static byte @Nullable [] read(String resource) throws IOException {
        try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
            return in == null ? null : in.readAllBytes();
        }
    }

    /// Makes `file` hold the library, in a folder that only its owner may enter. Another process may do the same at the
    /// same time: the file is written aside and put into place whole.
    private static void unpack(byte[] library, String digest, Path file) throws IOException {
        Path folder = file.getParent();
        Files.createDirectories(folder.getParent());
        if (!Files.isDirectory(folder)) {
            Files.createDirectories(folder, PosixFilePermissions.asFileAttribute(OWNER_ONLY));
        }
        if (!Files.getPosixFilePermissions(folder).equals(OWNER_ONLY) || !Files.getOwner(folder).equals(self(folder))) {
            throw new IOException("expected a folder of this user alone, got " + Files.getOwner(folder) + " "
                    + PosixFilePermissions.toString(Files.getPosixFilePermissions(folder)));
        }
        if (Files.isRegularFile(file) && sha256(Files.readAllBytes(file)).equals(digest)) {
            return;
        }
        Path aside = Files.createTempFile(folder, FILE, ".new");
        try {
            Files.write(aside, library);
            Files.move(aside, file, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(aside);
        }
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

    @SuppressWarnings("restricted")
    private static SymbolLookup lookup(Path file) {
        return SymbolLookup.libraryLookup(file, Arena.global());
    }

    private static String failure(Path where, Exception e) {
        String message = e.getMessage();
        return message != null && message.contains(where.toString()) ? message : where + ": " + message;
    }

    private static void delete(@Nullable Path folder) {
        if (folder == null) {
            return;
        }
        try {
            Files.deleteIfExists(folder.resolve(FILE));
            Files.deleteIfExists(folder);
        } catch (IOException e) {
            // It is in the directory for temporary files, whose owner clears it.
            return;
        }
    }

    private static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new UncheckedIOException(new IOException(e));
        }
    }
}

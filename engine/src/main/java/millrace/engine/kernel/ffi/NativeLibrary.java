package millrace.engine.kernel.ffi;

import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import millrace.engine.kernel.PrivateFile;
import org.jspecify.annotations.Nullable;

/// The kernel library of the jar, unpacked and opened; or the reason why it is not.
///
/// A library can only be opened as a file, see [PrivateFile]: once per version in the user's cache directory; where that
/// fails, below the directory for temporary files. What is opened is what was verified.
///
/// @param symbols null if the library could not be opened
/// @param reason why not; where it was opened from otherwise
record NativeLibrary(@Nullable SymbolLookup symbols, String reason) {
    private static final String FILE = "libmillrace.so";

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
        Path temporary = Path.of(System.getProperty("java.io.tmpdir"));
        return open(library, new String(digest, StandardCharsets.US_ASCII).strip(), PrivateFile.userCache(), temporary);
    }

    /// Opens a library given by its bytes.
    ///
    /// @param expected SHA-256 in hexadecimal
    /// @param cache where unpacked libraries may stay
    /// @param temporary tried if the cache cannot be used
    static NativeLibrary open(byte[] library, String expected, Path cache, Path temporary) {
        String digest = PrivateFile.sha256(library);
        if (!digest.equals(expected)) {
            return unavailable("library: expected SHA-256 %s, got %s".formatted(expected, digest));
        }
        List<String> failures = new ArrayList<>();
        Path kept = PrivateFile.place(library, FILE, cache);
        try {
            PrivateFile.kept(library, FILE, cache);
            return new NativeLibrary(lookup(kept), "from " + kept);
        } catch (IOException | IllegalArgumentException e) {
            failures.add(failure(kept, e));
        }
        try (PrivateFile file = PrivateFile.temporary(library, FILE, temporary)) {
            return new NativeLibrary(lookup(file.path()), "from a temporary file");
        } catch (IOException | IllegalArgumentException e) {
            failures.add(failure(temporary, e));
            return unavailable("library: it can be opened nowhere: " + String.join("; ", failures)
                    + "; is a directory read-only or mounted noexec?");
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

    @SuppressWarnings("restricted")
    private static SymbolLookup lookup(Path file) {
        return SymbolLookup.libraryLookup(file, Arena.global());
    }

    private static String failure(Path where, Exception e) {
        String message = e.getMessage();
        return message != null && message.contains(where.toString()) ? message : where + ": " + message;
    }
}

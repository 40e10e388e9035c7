package millrace.engine;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;

/// Which code computes: the version and a digest over it, so that an attestation names the build.
final class EngineBuild {
    private static final String UNPACKED = "unpacked";

    private EngineBuild() {}

    /// `<version> sha256:<64 hexadecimal digits>`. The digest is the jar's, or, for unpacked classes, that over the
    /// lines `<path> <SHA-256>` of all class files in order of path.
    static String describe() {
        String version = EngineBuild.class.getPackage().getImplementationVersion();
        try {
            Path code = Path.of(EngineBuild.class
                    .getProtectionDomain()
                    .getCodeSource()
                    .getLocation()
                    .toURI());
            String digest = Files.isDirectory(code) ? ofDirectory(code) : hex(Files.readAllBytes(code));
            return (version == null ? UNPACKED : version) + " sha256:" + digest;
        } catch (IOException e) {
            throw new UncheckedIOException("engine: cannot read its own classes", e);
        } catch (URISyntaxException e) {
            throw new IllegalStateException("engine: its own classes have no path", e);
        }
    }

    static String ofDirectory(Path directory) throws IOException {
        List<Path> classes;
        try (Stream<Path> files = Files.walk(directory)) {
            classes = files.filter(p -> p.toString().endsWith(".class")).sorted().toList();
        }
        StringBuilder lines = new StringBuilder();
        for (Path file : classes) {
            lines.append(directory.relativize(file).toString().replace('\\', '/'))
                    .append(' ')
                    .append(hex(Files.readAllBytes(file)))
                    .append('\n');
        }
        return hex(lines.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    private static String hex(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }
}

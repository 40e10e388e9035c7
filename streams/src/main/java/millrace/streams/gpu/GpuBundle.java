package millrace.streams.gpu;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;

/// Makes the archive: a Java runtime of the modules that are used, the engine with its kernels and its contract tests, the
/// benchmarks, and a launcher. It needs nothing of the machine that it is unpacked on but a driver.
///
/// ```
///  millrace-gpu/millrace      launcher: `gpu check`, `bench kernels`, `bench engine`
///  millrace-gpu/runtime/      Java
///  millrace-gpu/lib/          jars of the product
///  millrace-gpu/tests/        jars of the contract tests
/// ```
public final class GpuBundle {
    /// The folder that the archive holds.
    public static final String FOLDER = "millrace-gpu";

    /// What the archive may take.
    public static final long MOST_BYTES = 60_000_000;

    private static final Duration PATIENCE = Duration.ofMinutes(5);

    /// java.base first; the others are what the engine, its tests and the benchmarks ask for.
    private static final String MODULES =
            "java.base,java.logging,java.management,jdk.management,jdk.unsupported,"
                    + "jdk.incubator.vector,jdk.zipfs";

    /// Jars of the service that a check does without, by the beginning of their names.
    private static final List<String> USED = List.of(
            "engine-", "jackson-annotations-", "jackson-core-", "jackson-databind-", "jcuda-", "jspecify-", "picocli-");

    /// The same of the tests.
    private static final List<String> TESTED = List.of(
            "apiguardian-", "assertj-core-", "junit-jupiter-", "junit-platform-", "opentest4j-");

    private final Path root;
    private final Consumer<String> progress;

    /// @param root of a checkout that was built
    public GpuBundle(Path root, Consumer<String> progress) {
        this.root = root;
        this.progress = progress;
    }

    /// Writes the archive.
    ///
    /// @param archive a file that ends in `.tar.gz`; its folder exists
    /// @param scratch an empty folder to lay it out in
    /// @return its bytes
    public long write(Path archive, Path scratch) throws IOException {
        fill(scratch.resolve(FOLDER));
        progress.accept("bundle: packing");
        Path aside = scratch.resolve("archive.tar.gz");
        Commands.run(PATIENCE, "tar", "-C", scratch.toString(), "-czf", aside.toString(), FOLDER);
        long bytes = Files.size(aside);
        if (bytes > MOST_BYTES) {
            throw new IllegalStateException("bundle: expected at most %d bytes, got %d".formatted(MOST_BYTES, bytes));
        }
        Files.move(aside, archive, StandardCopyOption.REPLACE_EXISTING);
        return bytes;
    }

    /// Lays the bundle out in a folder that is not there yet.
    public void fill(Path folder) throws IOException {
        Path engine = root.resolve("engine/target");
        Path tests = engine.resolve("check");
        Path libraries = root.resolve("streams/target/lib");
        if (!Files.isDirectory(tests) || !Files.isDirectory(libraries)) {
            throw new IllegalArgumentException(
                    root + ": expected a checkout that was built, got no " + (Files.isDirectory(tests) ? libraries : tests)
                            + "; run `mvn -DskipTests package` there");
        }
        Files.createDirectories(folder);
        progress.accept("bundle: linking a Java runtime");
        Commands.run(
                PATIENCE, Path.of(System.getProperty("java.home"), "bin", "jlink").toString(), "--add-modules", MODULES,
                "--strip-debug", "--no-header-files", "--no-man-pages", "--compress", "zip-6",
                "--output", folder.resolve("runtime").toString());
        progress.accept("bundle: copying");
        copy(jars(root.resolve("streams/target"), List.of("streams-")), folder.resolve("lib"));
        copy(jars(libraries, USED), folder.resolve("lib"));
        copy(jars(engine, List.of("engine-")).stream().filter(jar -> jar.toString().endsWith("-tests.jar")).toList(),
                folder.resolve("tests"));
        copy(jars(tests, TESTED), folder.resolve("tests"));
        Path launcher = folder.resolve("millrace");
        try (var in = GpuBundle.class.getResourceAsStream("launcher.sh")) {
            if (in == null) {
                throw new IllegalStateException("bundle: launcher.sh is missing in the jar");
            }
            Files.copy(in, launcher);
        }
        Files.setPosixFilePermissions(launcher, PosixFilePermissions.fromString("rwxr-xr-x"));
        Files.writeString(folder.resolve("README"), """
                Millrace on one machine with a GPU and its driver; nothing else is needed.

                  ./millrace gpu check --out DIR     facts, contract tests, bits, benchmarks; under 8 minutes
                  ./millrace gpu check --help
                """, StandardCharsets.UTF_8);
    }

    private static List<Path> jars(Path folder, List<String> beginnings) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> found = files.filter(file -> file.toString().endsWith(".jar"))
                    .filter(file -> beginnings.stream().anyMatch(file.getFileName().toString()::startsWith))
                    .sorted()
                    .toList();
            if (found.isEmpty()) {
                throw new IllegalArgumentException(folder + ": expected jars " + beginnings
                        + ", got none; run `mvn -DskipTests package` in the checkout");
            }
            return found;
        }
    }

    private static void copy(List<Path> files, Path folder) throws IOException {
        Files.createDirectories(folder);
        for (Path file : files) {
            Files.copy(file, folder.resolve(file.getFileName().toString()), StandardCopyOption.REPLACE_EXISTING);
        }
    }
}

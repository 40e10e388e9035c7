package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The tree of the container image, made by the script that the Dockerfile runs, works as a user without rights that can
/// write nowhere but into its own directory.
class ImageTreeIT {
    @TempDir
    private Path directory;

    @Test
    void servesFromAReadOnlyTreeAsAUserWithoutRights() throws Exception {
        assumeTrue(System.getProperty("os.name").equals("Linux"), "the image is one of Linux");
        assumeTrue(built(), "the jars are packaged, as in mvn verify");
        // JUnit's directory is for its owner alone; the other user must be able to enter.
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path tree = directory.resolve("rootfs");
        run(directory, 0, Repository.root().resolve("compose/assemble.sh").toString(), tree.toString());
        Path home = tree.resolve("opt/millrace");
        run(directory, 0, "chmod", "-R", "a-w", home.toString());
        // The image has the tree at the root; here it stands elsewhere.
        Path arguments = Files.writeString(directory.resolve("java.args"),
                Files.readString(home.resolve("java.args")).replace("/opt/millrace", home.toString()));
        Path work = Files.createDirectory(directory.resolve("work"), PosixFilePermissions.asFileAttribute(
                PosixFilePermissions.fromString("rwxrwxrwx")));
        Files.setPosixFilePermissions(work, PosixFilePermissions.fromString("rwxrwxrwx"));

        List<String> command = new ArrayList<>();
        if (Files.isWritable(Path.of("/"))) { // root: become nobody
            command.addAll(List.of("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"));
        }
        String java = home.resolve("jre/bin/java").toString();
        command.addAll(List.of(java, "-Djava.io.tmpdir=" + work, "@" + arguments, "millrace.streams.cli.Main", "demo", "--questions", "3",
                "--json"));
        String output = run(work, 0, command.toArray(String[]::new));
        List<String> lines = output.lines().toList();
        assertThat(new ObjectMapper().readTree(lines.getLast()).path("audit").path("verdict").asText()).as(output).isEqualTo("ok");

        run(work, 1, java, "-Xmx16m", "-cp", home.resolve("lib/streams.jar").toString(), "millrace.streams.cli.HealthProbe",
                "http://127.0.0.1:1/live");
    }

    private static boolean built() throws IOException {
        Path target = Repository.root().resolve("streams/target");
        if (!Files.isDirectory(target.resolve("lib"))) {
            return false;
        }
        try (Stream<Path> all = Files.list(target)) {
            return all.anyMatch(file -> file.getFileName().toString().matches("streams-[\\w.-]*\\.jar"));
        }
    }

    private String run(Path folder, int exitCode, String... command) throws Exception {
        Path output = directory.resolve("output.txt");
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile()).redirectOutput(output.toFile())
                .redirectError(directory.resolve("error.txt").toFile());
        builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
        Process process = builder.start();
        boolean ended = process.waitFor(3, TimeUnit.MINUTES);
        if (!ended) {
            process.destroyForcibly();
        }
        String said = Files.readString(output);
        assertThat(ended ? process.exitValue() : -1)
                .as("%s: %s%s", String.join(" ", command), said, Files.readString(directory.resolve("error.txt")))
                .isEqualTo(exitCode);
        return said;
    }
}

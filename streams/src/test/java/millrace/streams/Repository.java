package millrace.streams;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/// The repository that the tests run in, for rules about its files.
final class Repository {
    private static final Set<String> NOT_OURS =
            Set.of("target", "data", "node_modules", ".git", ".idea", ".vscode", ".settings");

    private Repository() {}

    /// The folder of the parent pom: Maven runs tests in the folder of their module.
    static Path root() {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.isRegularFile(folder.resolve("millrace"))) {
            folder = folder.getParent();
            if (folder == null) {
                throw new IllegalStateException("tests run in " + Path.of("").toAbsolutePath() + ", outside of the repository");
            }
        }
        return folder;
    }

    /// Every file but what was built, in order of path.
    static List<Path> files() throws IOException {
        List<Path> all = new ArrayList<>();
        Files.walkFileTree(root(), new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult preVisitDirectory(Path folder, BasicFileAttributes attributes) {
                return NOT_OURS.contains(String.valueOf(folder.getFileName()))
                        ? FileVisitResult.SKIP_SUBTREE : FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
                all.add(file);
                return FileVisitResult.CONTINUE;
            }
        });
        all.sort(null);
        return all;
    }
}

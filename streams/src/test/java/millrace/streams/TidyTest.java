package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.LineMap;
import com.sun.source.tree.MethodTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.TreePathScanner;
import com.sun.source.util.Trees;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;

/// The rules of the house that no tool has: about files, not about classes.
class TidyTest {
    private static final int MAX_FILE_LINES = 500;
    private static final int MAX_METHOD_LINES = 60;
    /// The body of a kernel, and the forward pass, which reads like the paper from top to bottom.
    private static final int MAX_KERNEL_LINES = 120;

    private static final Set<String> TEXT = Set.of(
            "java", "md", "xml", "avsc", "sh", "properties", "json", "jsonl", "yaml", "yml", "config", "txt", "mjs", "js", "");
    private static final Set<String> OURS = Set.of("java", "md", "xml", "avsc", "sh", "properties", "mjs", "");

    /// Where a build file may fetch from; a mirror of somebody's network is not among them.
    private static final Pattern HOST = Pattern.compile("https?://([A-Za-z0-9.-]+)");
    private static final Set<String> BUILD_HOSTS = Set.of("maven.apache.org", "www.w3.org", "www.apache.org");
    private static final Pattern MACHINE_PATH =
            Pattern.compile("(?<![\\w.$/}-])/(?:work|root|Users/\\w+|home/\\w+)/[\\w.-]+|[A-Z]:\\\\Users");

    private static final Pattern LINK = Pattern.compile("(?<!!)\\[[^\\]\\n]*\\]\\(([^)\\s]+)\\)");
    private static final Pattern FENCE = Pattern.compile("(?ms)^ *```.*?^ *```$|`[^`\\n]*`");
    private static final Pattern HEADING = Pattern.compile("(?m)^#{1,6} +(.+)$");
    /// A code as an argument of its own, or at the beginning of a message.
    private static final Pattern CODE =
            Pattern.compile("\"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)\"|\"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+): ");
    /// Values of other vocabularies that look like codes.
    private static final Set<String> NOT_CODES = Set.of(
            "EPOCH_START", "STATE_LOST", "PARTITIONS_CHANGED", "KEY_COMPROMISE", "STATIC_TOKEN", "USER_INFO");
    private static final List<String> ADR_HEADINGS =
            List.of("## Context", "## Decision", "## Consequences", "## Rejected", "## Revisit when");

    @Test
    void javaFilesAreShort() throws IOException {
        List<String> found = new ArrayList<>();
        for (Path file : files("java").toList()) {
            List<String> lines = Files.readAllLines(file);
            if (lines.size() > MAX_FILE_LINES) {
                found.add(name(file) + ": " + lines.size() + " lines, at most " + MAX_FILE_LINES);
            }
        }
        assertThat(found).isEmpty();
    }

    @Test
    void methodsAreShort() throws IOException {
        List<String> found = new ArrayList<>();
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        try (StandardJavaFileManager manager = compiler.getStandardFileManager(null, Locale.ROOT, StandardCharsets.UTF_8)) {
            Iterable<? extends JavaFileObject> sources = manager.getJavaFileObjectsFromPaths(
                    files("java").filter(file -> name(file).contains("/src/main/")).toList());
            JavacTask task = (JavacTask) compiler.getTask(null, manager, problem -> {}, List.of("--release", "25"), null, sources);
            SourcePositions positions = Trees.instance(task).getSourcePositions();
            for (CompilationUnitTree unit : task.parse()) {
                int limit = isKernel(unit.getSourceFile().getName()) ? MAX_KERNEL_LINES : MAX_METHOD_LINES;
                found.addAll(longMethods(unit, positions, limit));
            }
        }
        assertThat(found).isEmpty();
    }

    private static boolean isKernel(String source) {
        return source.contains("/engine/kernel/") || source.endsWith("/engine/model/Transformer.java");
    }

    private static List<String> longMethods(CompilationUnitTree unit, SourcePositions positions, int limit) {
        List<String> found = new ArrayList<>();
        LineMap map = unit.getLineMap();
        new TreePathScanner<Void, Void>() {
            @Override
            public Void visitMethod(MethodTree method, Void none) {
                if (method.getBody() != null) {
                    long first = map.getLineNumber(positions.getStartPosition(unit, method.getBody()));
                    long lines = map.getLineNumber(positions.getEndPosition(unit, method.getBody())) - first + 1;
                    if (lines > limit) {
                        found.add(name(Path.of(unit.getSourceFile().getName())) + ":" + first + ": " + method.getName() + " has "
                                + lines + " lines, at most " + limit);
                    }
                }
                return super.visitMethod(method, none);
            }
        }.scan(unit, null);
        return found;
    }

    @Test
    void nothingIsLeftForLater() throws IOException {
        // In two parts, or this file would be found.
        Pattern later = Pattern.compile("\\b(?:TO" + "DO|FIX" + "ME|X" + "XX)\\b");
        assertThat(linesWith(later, TEXT)).isEmpty();
    }

    @Test
    void noTabsNoTrailingBlanksAndANewlineAtTheEnd() throws IOException {
        List<String> found = new ArrayList<>(linesWith(Pattern.compile("\\t|[ \\t]+$"), OURS));
        for (Path file : Repository.files()) {
            if (OURS.contains(extension(file))) {
                String text = Files.readString(file);
                if (!text.isEmpty() && !text.endsWith("\n")) {
                    found.add(name(file) + ": no newline at the end");
                }
            }
        }
        assertThat(found).isEmpty();
    }

    @Test
    void everyPackageSaysWhatItIs() throws IOException {
        Set<String> without = new TreeSet<>();
        for (Path file : files("java").toList()) {
            Path folder = file.getParent();
            if (name(folder).contains("/src/main/java/") && !Files.exists(folder.resolve("package-info.java"))) {
                without.add(name(folder));
            }
        }
        assertThat(without).isEmpty();
        for (Path file : files("java").filter(f -> f.endsWith("package-info.java") && name(f).contains("/src/main/")).toList()) {
            assertThat(Files.readString(file)).as(name(file))
                    .startsWith("///").containsAnyOf("@NullMarked", "Not null-marked: ");
        }
    }

    @Test
    void linksOfTheDocumentsResolve() throws IOException {
        List<String> found = new ArrayList<>();
        for (Path file : files("md").toList()) {
            Matcher link = LINK.matcher(FENCE.matcher(Files.readString(file)).replaceAll(""));
            while (link.find()) {
                String target = link.group(1);
                if (target.matches("[a-z]+:.*")) {
                    continue;
                }
                String[] parts = target.split("#", 2);
                Path there = parts[0].isEmpty() ? file : file.resolveSibling(parts[0]).normalize();
                if (!Files.exists(there)) {
                    found.add(name(file) + ": " + target + ": no such file");
                } else if (parts.length == 2 && !anchors(there).contains(parts[1])) {
                    found.add(name(file) + ": " + target + ": no such heading; there are " + anchors(there));
                }
            }
        }
        assertThat(found).isEmpty();
    }

    private static Set<String> anchors(Path document) throws IOException {
        Set<String> anchors = new TreeSet<>();
        Matcher heading = HEADING.matcher(Files.readString(document));
        while (heading.find()) {
            anchors.add(heading.group(1).strip().toLowerCase(Locale.ROOT)
                    .replaceAll("[^\\p{L}\\p{N} _-]", "").replace(' ', '-'));
        }
        return anchors;
    }

    @Test
    void decisionsAreNumberedAndComplete() throws IOException {
        Path folder = Repository.root().resolve("docs/adr");
        List<Path> decisions;
        try (Stream<Path> all = Files.list(folder)) {
            decisions = all.filter(file -> file.getFileName().toString().matches("\\d{4}-.*")).sorted().toList();
        }
        assertThat(decisions).hasSizeGreaterThanOrEqualTo(10);
        for (int i = 0; i < decisions.size(); i++) {
            Path decision = decisions.get(i);
            String text = Files.readString(decision);
            assertThat(decision.getFileName().toString()).startsWith("%04d-".formatted(i + 1)).endsWith(".md");
            assertThat(text).as(name(decision)).startsWith("# " + (i + 1) + ". ");
            assertThat(text.lines().filter(line -> line.startsWith("## "))).as(name(decision)).containsExactlyElementsOf(ADR_HEADINGS);
            assertThat(text).as(name(decision) + ": empty section").doesNotContainPattern("(?m)^## .*\\n+(?=## |\\z)");
        }
    }

    @Test
    void everyErrorCodeIsDocumented() throws IOException {
        Set<String> used = new TreeSet<>();
        for (Path file : files("java").toList()) {
            if (name(file).contains("/src/main/") && !name(file).contains("/registry/server/")) {
                Matcher code = CODE.matcher(Files.readString(file));
                while (code.find()) {
                    used.add(code.group(1) == null ? code.group(2) : code.group(1));
                }
            }
        }
        String page = Files.readString(Repository.root().resolve("docs/formats.md"));
        used.removeIf(code -> page.contains("`" + code + "`"));
        used.removeAll(NOT_CODES);
        assertThat(used).as("missing in docs/formats.md, Error codes").isEmpty();
    }

    @Test
    void nothingPointsToOneMachine() throws IOException {
        List<String> found = new ArrayList<>(linesWith(MACHINE_PATH, TEXT));
        for (Path file : Repository.files()) {
            boolean build = name(file).matches("(.*/)?(pom\\.xml|package(-lock)?\\.json|\\.npmrc|settings\\.xml|maven\\.config|jvm\\.config)");
            if (build) {
                Matcher host = HOST.matcher(Files.readString(file));
                while (host.find()) {
                    if (!BUILD_HOSTS.contains(host.group(1))) {
                        found.add(name(file) + ": fetches from " + host.group(1));
                    }
                }
            }
        }
        assertThat(found).isEmpty();
    }

    private static List<String> linesWith(Pattern pattern, Set<String> extensions) throws IOException {
        List<String> found = new ArrayList<>();
        for (Path file : Repository.files()) {
            if (extensions.contains(extension(file)) && !name(file).contains("/resources/models/")) {
                List<String> lines = Files.readAllLines(file);
                for (int i = 0; i < lines.size(); i++) {
                    Matcher matcher = pattern.matcher(lines.get(i));
                    if (matcher.find()) {
                        found.add(name(file) + ":" + (i + 1) + ": " + matcher.group().replace("\t", "\\t"));
                    }
                }
            }
        }
        return found;
    }

    private static Stream<Path> files(String extension) throws IOException {
        return Repository.files().stream().filter(file -> extension(file).equals(extension));
    }

    private static String extension(Path file) {
        String name = file.getFileName().toString();
        int dot = name.lastIndexOf('.');
        return dot < 0 ? "" : name.substring(dot + 1);
    }

    private static String name(Path file) {
        return Repository.root().relativize(file.toAbsolutePath()).toString().replace('\\', '/');
    }
}

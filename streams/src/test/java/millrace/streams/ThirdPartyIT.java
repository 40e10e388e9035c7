package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// docs/third-party.md lists what runs with us, under licences that we may take.
class ThirdPartyIT {
    private static final Set<String> ALLOWED = Set.of("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0");
    private static final Pattern ROW = Pattern.compile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| (\\S+) \\| (.+) \\|$");

    private static List<Matcher> rows() throws IOException {
        String page = Files.readString(Repository.root().resolve("docs/third-party.md"));
        Matcher row = ROW.matcher(page);
        List<Matcher> rows = new java.util.ArrayList<>();
        while (row.find()) {
            Matcher found = ROW.matcher(row.group());
            assertThat(found.matches()).isTrue();
            rows.add(found);
        }
        return rows;
    }

    @Test
    void everyLicenceIsOneThatWeMayTake() throws IOException {
        assertThat(rows()).hasSizeGreaterThan(50).allSatisfy(
                row -> assertThat(row.group(4).split(" or ")[0]).as(row.group(2)).isIn(ALLOWED));
    }

    @Test
    void everyJarThatRunsIsListedWithItsVersionAndNoOther() throws IOException {
        Path lib = Repository.root().resolve("streams/target/lib");
        assumeTrue(Files.isDirectory(lib), "the jars are packaged, as in mvn verify");
        Set<String> listed = new TreeSet<>();
        rows().forEach(row -> listed.add(row.group(2) + "-" + row.group(3) + ".jar"));
        try (Stream<Path> jars = Files.list(lib)) {
            Set<String> running = new TreeSet<>(jars.map(jar -> jar.getFileName().toString())
                    .filter(name -> !name.matches("(schemas|integrity|engine)-.*")).toList());
            assertThat(listed).as("docs/third-party.md; the bill of materials has the licences").isEqualTo(running);
        }
    }
}

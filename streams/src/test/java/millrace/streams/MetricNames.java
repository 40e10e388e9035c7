package millrace.streams;

import java.io.IOException;
import java.nio.file.Files;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/// Names of metrics: those that docs/operations.md promises, those that a scrape has, those that rules and dashboards ask for.
final class MetricNames {
    private static final Pattern ROW = Pattern.compile("(?m)^\\| ((?:`[a-z_.]+(?:\\.\\*)?`(?:, )?)+) \\| (\\w*) \\| (.*) \\|$");
    private static final Pattern NAME = Pattern.compile("`([a-z_.]+)`");
    private static final Pattern TYPE = Pattern.compile("(?m)^# TYPE (\\S+) \\S+$");
    private static final Pattern ASKED = Pattern.compile("\\b(?:millrace|gen_ai|messaging|kafka|jvm|process|system)_[a-z0-9_]+");
    /// Labels that look like metrics.
    private static final Set<String> LABELS = Set.of("gen_ai_token_type");
    /// Documented as a whole, not one by one.
    private static final Pattern BY_FAMILY = Pattern.compile("(?:kafka|jvm|process|system)_.*");

    private MetricNames() {}

    /// In Prometheus' form, without those of other hardware.
    static Set<String> documented() throws IOException {
        String page = Files.readString(Repository.root().resolve("docs/operations.md"));
        String section = page.substring(page.indexOf("\n## Metrics"), page.indexOf("\n## Alerts"));
        Set<String> names = new TreeSet<>();
        Matcher row = ROW.matcher(section);
        while (row.find()) {
            if (row.group(3).startsWith("with a GPU")) {
                continue;
            }
            String suffix = row.group(2).equals("counter") ? "_total" : row.group(2).equals("timer") ? "_seconds" : "";
            Matcher name = NAME.matcher(row.group(1));
            while (name.find()) {
                String base = name.group(1).replace('.', '_');
                names.add(suffix.equals("_total") || !base.endsWith("_seconds") ? base + suffix : base);
            }
        }
        return names;
    }

    /// Families of a scrape that are documented one by one.
    static Set<String> exposed(String scrape) {
        return TYPE.matcher(scrape).results().map(type -> type.group(1))
                .filter(name -> !BY_FAMILY.matcher(name).matches())
                .filter(name -> !name.endsWith("_max") || !scrape.contains("# TYPE " + name.substring(0, name.length() - 4) + " histogram"))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /// Every name that has samples.
    static Set<String> sampled(String scrape) {
        return scrape.lines().filter(line -> !line.startsWith("#")).map(line -> line.split("[{ ]", 2)[0])
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /// What a document of rules or panels asks for.
    static Set<String> asked(String document) {
        return ASKED.matcher(document.lines().filter(line -> line.contains("expr")).collect(Collectors.joining("\n"))).results()
                .map(found -> found.group()).filter(name -> !LABELS.contains(name)).collect(Collectors.toCollection(TreeSet::new));
    }
}

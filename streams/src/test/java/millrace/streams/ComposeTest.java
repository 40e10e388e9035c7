package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import millrace.streams.cli.Main;
import org.junit.jupiter.api.Test;
import org.yaml.snakeyaml.Yaml;

/// The files of compose/, as far as they can be held to their rules without a container engine.
class ComposeTest {
    private static final Path FOLDER = Repository.root().resolve("compose");
    private static final Pattern IMAGE = Pattern.compile("[a-z0-9./-]+:(v?\\d+\\.\\d+\\.\\d+[\\w.-]*|noble-\\d{8})");
    /// A variable with one of these in its name holds a secret, or the file of one.
    private static final Set<String> SECRET_WORDS = Set.of("PASSWORD", "_KEY", "TOKEN", "JAAS");

    private static Map<String, Object> read(String name) throws IOException {
        return map(new Yaml().load(Files.readString(FOLDER.resolve(name))));
    }

    @SuppressWarnings("unchecked") // YAML: a map has strings as keys here
    private static Map<String, Object> map(Object value) {
        return value == null ? Map.of() : (Map<String, Object>) value;
    }

    private static List<String> strings(Object value) {
        return value == null ? List.of() : ((List<?>) value).stream().map(String::valueOf).toList();
    }

    /// What runs: every service of the main file, and those that the second file adds.
    private static Map<String, Map<String, Object>> services() throws IOException {
        Map<String, Map<String, Object>> all = new LinkedHashMap<>();
        map(read("compose.yaml").get("services")).forEach((name, service) -> all.put(name, map(service)));
        map(read("compose.three-brokers.yaml").get("services")).forEach((name, service) -> all.putIfAbsent(name, map(service)));
        return all;
    }

    /// The image that a service of compose.yaml runs.
    static String image(String service) {
        try {
            return String.valueOf(map(map(read("compose.yaml").get("services")).get(service)).get("image"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Map<String, Object> limits(Map<String, Object> service) {
        return map(map(map(service.get("deploy")).get("resources")).get("limits"));
    }

    @Test
    void everyServiceIsPinnedHardenedAndLimited() throws IOException {
        Map<String, Map<String, Object>> services = services();
        assertThat(services).containsKeys(
                "kafka", "kafka-2", "kafka-3", "registry", "topics", "millrace", "millrace-gpu", "gateway", "prometheus", "grafana", "kafka-ui");
        services.forEach((name, service) -> {
            assertThat(String.valueOf(service.get("image"))).as(name).matches(IMAGE);
            assertThat(String.valueOf(service.get("user"))).as(name).matches("[1-9]\\d*:\\d+");
            assertThat(service.get("read_only")).as(name + ": read_only").isEqualTo(true);
            assertThat(strings(service.get("cap_drop"))).as(name).containsExactly("ALL");
            assertThat(strings(service.get("security_opt"))).as(name).contains("no-new-privileges:true");
            assertThat(limits(service)).as(name + ": limits").containsKeys("cpus", "memory");
            assertThat(map(service.get("healthcheck"))).as(name + ": healthcheck").isNotEmpty();
            assertThat(service).as(name).doesNotContainKey("privileged");
            assertThat(strings(service.get("ports"))).as(name).allMatch(port -> port.startsWith("127.0.0.1:"));
        });
        assertThat(map(services.get("topics").get("healthcheck"))).as("runs once").containsEntry("disable", true);
    }

    @Test
    void noPortIsPublishedTwice() throws IOException {
        List<String> ports = new ArrayList<>();
        services().forEach((name, service) -> {
            if (!name.equals("millrace-gpu")) { // one of the two runs
                strings(service.get("ports")).forEach(port -> ports.add(port.substring(0, port.lastIndexOf(':'))));
            }
        });
        assertThat(ports).doesNotHaveDuplicates();
    }

    @Test
    void everyVariableOfOursIsAKeyOfTheConfiguration() throws IOException {
        List<String> unknown = new ArrayList<>();
        for (String file : List.of("compose.yaml", "compose.three-brokers.yaml")) {
            map(read(file).get("services")).forEach((name, service) -> {
                Map<String, Object> environment = map(map(service).get("environment"));
                Map<String, String> ours = new LinkedHashMap<>();
                environment.forEach((variable, value) -> {
                    if (variable.startsWith(ServiceConfig.ENV_PREFIX)) {
                        String key = variable.substring(ServiceConfig.ENV_PREFIX.length()).toLowerCase(Locale.ROOT).replace('_', '.');
                        if (!ServiceConfig.DEFINITION.names().contains(key) && !key.startsWith("kafka.") && !key.startsWith("schema.registry.")) {
                            unknown.add(name + ": " + variable);
                        }
                        ours.put(key, String.valueOf(value).replaceAll("\\$\\{\\w+:-([^}]*)}", "$1"));
                    }
                });
                ServiceConfig.of(ours);
            });
        }
        assertThat(unknown).isEmpty();
    }

    @Test
    void everyCommandExists() throws IOException {
        services().forEach((name, service) -> {
            if (String.valueOf(service.get("image")).startsWith("millrace:") && service.containsKey("command")) {
                List<String> command = strings(service.get("command"));
                assertThat(Main.commandLine().getSubcommands()).as(name).containsKey(command.getFirst());
            }
        });
        String dockerfile = Files.readString(FOLDER.resolve("Dockerfile"));
        Matcher named = Pattern.compile("millrace\\.streams\\.cli\\.(\\w+)").matcher(dockerfile + Files.readString(FOLDER.resolve("compose.yaml")));
        while (named.find()) {
            assertThat(Repository.root().resolve("streams/src/main/java/millrace/streams/cli/" + named.group(1) + ".java")).exists();
        }
    }

    @Test
    void secretsAreFilesAndNothingElse() throws IOException {
        Map<String, Object> secrets = map(read("compose.yaml").get("secrets"));
        assertThat(secrets).containsKey("audit_key");
        secrets.forEach((name, secret) -> assertThat(map(secret)).as(name).containsOnlyKeys("file"));
        services().forEach((name, service) -> {
            map(service.get("environment")).forEach((variable, value) -> {
                if (SECRET_WORDS.stream().anyMatch(variable::contains)) {
                    assertThat(String.valueOf(value)).as(name + ": " + variable).startsWith("/run/secrets/");
                }
            });
            for (Object used : (List<?>) service.getOrDefault("secrets", List.of())) {
                assertThat(secrets).as(name).containsKey(String.valueOf(map(used).get("source")));
            }
        });
    }

    @Test
    void everyFileThatIsNamedIsThere() throws IOException {
        Map<String, Object> main = read("compose.yaml");
        Set<String> volumes = new HashSet<>(map(main.get("volumes")).keySet());
        volumes.addAll(map(read("compose.three-brokers.yaml").get("volumes")).keySet());
        Set<String> networks = map(main.get("networks")).keySet();
        services().forEach((name, service) -> {
            for (Object volume : (List<?>) service.getOrDefault("volumes", List.of())) {
                if (volume instanceof String named) {
                    assertThat(volumes).as(name).contains(named.substring(0, named.indexOf(':')));
                } else {
                    assertThat(FOLDER.resolve(String.valueOf(map(volume).get("source")))).as(name).exists();
                    assertThat(map(volume)).as(name).containsEntry("read_only", true);
                }
            }
            Object joined = service.get("networks");
            assertThat(networks).as(name).containsAll(joined instanceof Map ? map(joined).keySet() : strings(joined));
            Map<String, Object> build = map(service.get("build"));
            if (!build.isEmpty()) {
                assertThat(FOLDER.resolve(String.valueOf(build.get("context"))).resolve(String.valueOf(build.get("dockerfile")))).exists();
            }
            map(service.get("depends_on")).keySet().forEach(other -> assertThat(main.get("services")).asString().contains(other + "="));
        });
        assertThat(map(read("prometheus/prometheus.yml")).toString()).contains("/etc/prometheus/alerts.yml", "millrace:8080");
        assertThat(FOLDER.resolve("prometheus/alerts.yml")).exists();
        assertThat(FOLDER.resolve("grafana/dashboards/millrace.json")).exists();
        try (Stream<Path> all = Files.walk(FOLDER.resolve("grafana/provisioning"))) {
            for (Path file : all.filter(Files::isRegularFile).toList()) {
                assertThat(map(new Yaml().load(Files.readString(file)))).as(file.toString()).containsEntry("apiVersion", 1);
            }
        }
    }

    @Test
    void theBuildIsPinnedRunsWithoutRightsAndStartsNoShell() throws IOException {
        String dockerfile = Files.readString(FOLDER.resolve("Dockerfile"));
        List<String> froms = dockerfile.lines().filter(line -> line.startsWith("FROM ")).map(line -> line.split(" ")[1]).toList();
        assertThat(froms).hasSize(2).allMatch(image -> IMAGE.matcher(image).matches());
        assertThat(dockerfile).contains("USER 10001:10001", "HEALTHCHECK", "compose/assemble.sh /rootfs");
        assertThat(dockerfile.lines().filter(line -> line.matches("(ENTRYPOINT|CMD) .*"))).isNotEmpty().allMatch(line -> line.contains("["));
        List<String> copied = Files.readAllLines(FOLDER.resolve("Dockerfile.dockerignore")).stream()
                .filter(line -> line.startsWith("!")).map(line -> line.substring(1)).toList();
        assertThat(copied).contains("pom.xml", "streams").allSatisfy(path -> assertThat(Repository.root().resolve(path)).exists());
    }
}

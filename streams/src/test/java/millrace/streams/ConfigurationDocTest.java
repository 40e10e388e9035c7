package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.junit.jupiter.api.Test;

/// docs/configuration.md is what `ServiceConfig` says. `-Dmillrace.docs.write=true` writes it anew.
class ConfigurationDocTest {
    private static final Map<String, String> GROUPS = new LinkedHashMap<>();

    static {
        GROUPS.put("engine", "The model, its KV cache and its batches.");
        GROUPS.put("topics", "Topics of the service. Names are contracts with the clients: choose them once.");
        GROUPS.put("intake", "Limits that a prompt must keep. A prompt that does not is answered with a rejection.");
        GROUPS.put("audit", "The audit log: who signs, under which name, how often. See [operations](operations.md#audit-keys).");
        GROUPS.put("embedded", "The broker and the schema registry that `serve --embedded` brings along.");
        GROUPS.put("health", "Probes and metrics. See [operations](operations.md#health).");
        GROUPS.put("gateway", "`millrace gateway`, a process of its own. See [gateway](gateway.md).");
        GROUPS.put("", "Everything else: identity, state, and the pace of the service.");
    }

    @Test
    void pageIsWhatServiceConfigSays() throws IOException {
        Path page = Repository.root().resolve("docs/configuration.md");
        String expected = render();
        if (Boolean.getBoolean("millrace.docs.write")) {
            Files.writeString(page, expected);
        }
        assertThat(Files.readString(page))
                .as("docs/configuration.md is stale; write it anew with: mvn -q -pl streams -am test"
                        + " -Dtest=ConfigurationDocTest -Dsurefire.failIfNoSpecifiedTests=false -Dmillrace.docs.write=true")
                .isEqualTo(expected);
    }

    @Test
    void everyKeyIsDocumentedInAWholeSentence() {
        for (ConfigDef.ConfigKey key : ServiceConfig.DEFINITION.configKeys().values()) {
            assertThat(key.documentation).as(key.name).matches("(?s)[A-Z].*[.]");
        }
    }

    private static String render() throws IOException {
        StringBuilder page = new StringBuilder(
                Files.readString(Repository.root().resolve("streams/src/test/resources/configuration-head.md")));
        GROUPS.forEach((group, about) -> {
            List<ConfigDef.ConfigKey> keys = ServiceConfig.DEFINITION.configKeys().values().stream()
                    .filter(key -> group.equals(groupOf(key.name)))
                    .toList();
            page.append("\n## ").append(group.isEmpty() ? "Service" : "`" + group + ".`").append("\n\n").append(about);
            page.append("\n\n| key | type | default | values | importance | meaning |\n|---|---|---|---|---|---|\n");
            keys.forEach(key -> page.append(row(key)));
        });
        return page.toString();
    }

    private static String groupOf(String key) {
        String first = key.substring(0, key.indexOf('.'));
        return GROUPS.containsKey(first) ? first : "";
    }

    private static String row(ConfigDef.ConfigKey key) {
        Object value = key.defaultValue;
        String preset = value == null || value.equals("") ? "(empty)" : "`" + value + "`";
        String values = key.validator == null ? "" : key.validator.toString().replace("|", "\\|");
        return "| `%s` | %s | %s | %s | %s | %s |%n".formatted(
                key.name, key.type.name().toLowerCase(Locale.ROOT), preset, values,
                key.importance.name().toLowerCase(Locale.ROOT), key.documentation.replace("|", "\\|")).replace("\r\n", "\n");
    }
}

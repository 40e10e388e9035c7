package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Settings of every kind, drawn at random: understood as a plain reading of the rule has it, or refused with a
/// message; never another exception.
class SettingsFuzzTest {
    private static final Map<String, Long> UNIT_MS = Map.of("", 1L, "ms", 1L, "s", 1_000L, "m", 60_000L, "h", 3_600_000L);

    @TempDir
    private Path directory;

    private static String text(SplittableRandom random, String alphabet, int most) {
        StringBuilder text = new StringBuilder();
        for (int n = random.nextInt(most + 1); n > 0; n--) {
            text.append(alphabet.charAt(random.nextInt(alphabet.length())));
        }
        return text.toString();
    }

    @Test
    void durationsAreThoseOfArithmetic() {
        Pattern form = Pattern.compile("\\s*([0-9]{1,12})(ms|s|m|h|)\\s*");
        SplittableRandom random = new SplittableRandom(1);
        int understood = 0;
        for (int i = 0; i < 50_000; i++) {
            String text = text(random, "0123456789", 13) + text(random, "msh- .", 3);
            Matcher parts = form.matcher(text);
            try {
                Duration span = Durations.parse("k", text);
                understood++;
                assertThat(parts.matches()).as(text).isTrue();
                BigInteger ms = new BigInteger(parts.group(1)).multiply(BigInteger.valueOf(UNIT_MS.get(parts.group(2))));
                assertThat(BigInteger.valueOf(span.toMillis())).as(text).isEqualTo(ms);
            } catch (ConfigException e) {
                assertThat(parts.matches()).as(text).isFalse();
                assertThat(e.getMessage()).startsWith("config key \"k\": expected a span of time such as 250ms, 30s, 5m or 2h, got ");
            }
        }
        assertThat(understood).isGreaterThan(5_000);
    }

    /// A tenant's group is the one in whose entry it stands.
    @Test
    void groupsAreThoseWrittenDown() {
        SplittableRandom random = new SplittableRandom(2);
        int understood = 0;
        for (int i = 0; i < 50_000; i++) {
            String text = text(random, "ab:,; Z_é", 16);
            try {
                Map<String, String> groups = CacheSalts.groups(text);
                understood++;
                groups.forEach((tenant, group) -> assertThat(text.split(";")).as(text).anyMatch(entry ->
                        entry.strip().startsWith(group) && List.of(entry.substring(entry.indexOf(':') + 1).split(",")).stream()
                                .anyMatch(part -> part.strip().equals(tenant))));
                assertThat(text.isBlank() || !groups.isEmpty()).as(text).isTrue();
            } catch (ConfigException e) {
                assertThat(e.getMessage()).startsWith("config key \"engine.cache.groups\": expected ");
            }
        }
        assertThat(understood).isGreaterThan(1_000);
    }

    @Test
    void anyKeysAndValuesAreTakenOrRefusedByTheirKey() {
        List<String> keys = List.of("inflight.max", "engine.kv.format", "audit.checkpoint.interval.ms", "integrity.scrub.interval",
                "integrity.scrub.share", "schema.registry.url", "kafka.security.protocol", "kafka.sasl.jaas.config", "topics.prompts",
                "engine.cache.prefix", "engine.model.verify", "health.port", "intake.max.bytes", "kafka.", "nothing", "");
        SplittableRandom random = new SplittableRandom(3);
        int taken = 0;
        for (int i = 0; i < 20_000; i++) {
            Map<String, String> settings = new HashMap<>();
            for (int n = random.nextInt(3); n >= 0; n--) {
                settings.put(keys.get(random.nextInt(keys.size())), text(random, "0123456789.-abc=${}:/ true", 12));
            }
            try {
                ServiceConfig.of(settings);
                taken++;
            } catch (ConfigException e) {
                assertThat(e.getMessage()).as(settings.toString()).isNotBlank().doesNotContain("\n");
            }
        }
        assertThat(taken).isGreaterThan(500);
    }

    @Test
    void anyFileIsReadOrRefused() throws IOException {
        byte[] sound = "inflight.max=7\n# a comment\nengine.kv.format = bf16\n".getBytes(java.nio.charset.StandardCharsets.UTF_8);
        Path file = directory.resolve("service.properties");
        SplittableRandom random = new SplittableRandom(4);
        for (int i = 0; i < 1_000; i++) {
            byte[] changed = sound.clone();
            for (int n = random.nextInt(1, 5); n > 0; n--) {
                changed[random.nextInt(changed.length)] = (byte) random.nextInt(256);
            }
            Files.write(file, changed);
            try {
                ServiceConfig.load(file, Map.of(), Map.of());
            } catch (ConfigException e) {
                assertThat(e.getMessage()).as("round %d", i).isNotBlank();
            }
        }
    }
}

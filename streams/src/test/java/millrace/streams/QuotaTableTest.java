package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.streams.QuotaTable.Limits;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The file of quotas: what it may say, and what happens when it changes.
class QuotaTableTest {
    private static final QuotaTable EVERYBODY = new QuotaTable(new Limits(1_000, 10, 500), Map.of());

    @TempDir
    private Path directory;

    private static QuotaTable read(String text) {
        return EVERYBODY.with(text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void givesTenantsTheirOwnLimitsAndTheRestToEverybody() {
        QuotaTable table = read("""
                # the big customer
                acme.tokens.per.minute = 20000
                acme.inflight=0
                eu\\:acme.context=2000
                acme.inflight.inflight=3
                @anonymous.tokens.per.minute=60
                """);
        assertThat(table.of("acme")).isEqualTo(new Limits(20_000, 0, 500));
        assertThat(table.of("eu:acme")).isEqualTo(new Limits(1_000, 10, 2_000));
        assertThat(table.of("acme.inflight")).isEqualTo(new Limits(1_000, 3, 500));
        assertThat(table.of(QuotaTable.name(null))).isEqualTo(new Limits(60, 10, 500));
        assertThat(table.of("somebody")).isEqualTo(new Limits(1_000, 10, 500));
        assertThat(read("").byTenant()).isEmpty();
    }

    @Test
    void refusesWhatItDoesNotUnderstand() {
        assertThatThrownBy(() -> read("acme.tokens=5")).hasMessage(
                "entry \"acme.tokens\": expected TENANT.tokens.per.minute, TENANT.inflight or TENANT.context, got another key");
        assertThatThrownBy(() -> read("no tenant.inflight=5")).hasMessageContaining("entry \"no\": expected TENANT.tokens.per.minute");
        assertThatThrownBy(() -> read(".inflight=5")).hasMessage("entry \".inflight\": expected the name of a tenant before .inflight,"
                + " or @anonymous for prompts without one, got another name");
        assertThatThrownBy(() -> read("@other.inflight=5")).hasMessageContaining("got another name");
        for (String value : List.of("-1", "many", "1.5", "", "1000000001", "9223372036854775808")) {
            assertThatThrownBy(() -> read("acme.tokens.per.minute=" + value)).hasMessage("entry \"acme.tokens.per.minute\": expected a"
                    + " whole number of 0 (no limit) to 1000000000, got \"" + value + "\"");
        }
        assertThatThrownBy(() -> read("acme.inflight=\\u00zz")).hasMessageContaining("expected lines of key=value");
        assertThatThrownBy(() -> EVERYBODY.with(new byte[] {(byte) 0xc3, 0x28})).hasMessage("expected text in UTF-8, got other bytes");
    }

    /// Whatever the file: it is refused for one entry, or every limit is in its range and everybody else's is as it was.
    @Test
    void anyFileIsReadOrRefusedByItsEntry() {
        byte[] sound = "# big\nacme.tokens.per.minute = 20000\nacme.inflight=0\neu\\:acme.context=2000\n@anonymous.inflight=3\n"
                .getBytes(StandardCharsets.UTF_8);
        SplittableRandom random = new SplittableRandom(20261130);
        int read = 0;
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = sound.clone();
            for (int changes = random.nextInt(1, 4); changes > 0; changes--) {
                bytes[random.nextInt(bytes.length)] = random.nextInt(3) > 0
                        ? (byte) "0123456789.=:\\ \na@-".charAt(random.nextInt(19)) : (byte) random.nextInt(256);
            }
            try {
                QuotaTable table = EVERYBODY.with(bytes);
                read++;
                assertThat(table.byTenant().values()).as("round %d", i).allMatch(limits -> limits.tokensPerMinute() >= 0
                        && limits.tokensPerMinute() <= 1_000_000_000 && limits.inflight() >= 0 && limits.context() >= 0);
                assertThat(table.of("somebody")).as("round %d", i).isEqualTo(new Limits(1_000, 10, 500));
            } catch (IllegalArgumentException e) {
                assertThat(e.getMessage()).as("round %d", i).contains("expected ");
            }
        }
        assertThat(read).isGreaterThan(1_000);
    }

    private Path file(String text) throws IOException {
        return Files.writeString(directory.resolve("quotas.properties"), text);
    }

    private static ServiceConfig config(Path file) {
        return ServiceConfig.of(Map.of("quotas.file", file.toString(), "quotas.inflight", "7"));
    }

    @Test
    void readsTheFileAgainWhenItChangesAndKeepsWhatWasGood() throws Exception {
        Path file = file("acme.inflight=1");
        List<String> alarms = new ArrayList<>();
        try (QuotaFile quotas = new QuotaFile(config(file), alarms::add)) {
            assertThat(quotas.get().of("acme").inflight()).isEqualTo(1);
            assertThat(quotas.get().of("other").inflight()).isEqualTo(7);
            file("acme.inflight=2");
            quotas.look();
            assertThat(quotas.get().of("acme").inflight()).isEqualTo(2);
            file("acme.inflight=two");
            quotas.look();
            quotas.look();
            assertThat(quotas.get().of("acme").inflight()).isEqualTo(2);
            assertThat(alarms).as("one alarm for one mistake").containsExactly("QUOTAS_INVALID");
            Files.delete(file);
            quotas.look();
            assertThat(quotas.get().of("acme").inflight()).isEqualTo(2);
            assertThat(alarms).hasSize(2);
            file("acme.inflight=2");
            quotas.look();
            file("acme.inflight=3");
            quotas.look();
            assertThat(quotas.get().of("acme").inflight()).isEqualTo(3);
            assertThat(alarms).hasSize(2);
        }
    }

    @Test
    void stopsTheStartOnABadFile() throws Exception {
        Path bad = file("acme.inflight=two");
        assertThatThrownBy(() -> QuotaFile.check(config(bad))).isInstanceOf(ConfigException.class).hasMessage(
                "config key \"quotas.file\": " + bad + ": entry \"acme.inflight\": expected a whole number of 0 (no limit) to 2147483647,"
                        + " got \"two\"");
        Path none = directory.resolve("none");
        assertThatThrownBy(() -> QuotaFile.check(config(none))).isInstanceOf(ConfigException.class)
                .hasMessageContaining("config key \"quotas.file\": " + none + ": it cannot be read");
        QuotaFile.check(ServiceConfig.of(Map.of()));
    }
}

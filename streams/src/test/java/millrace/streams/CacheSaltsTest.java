package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.security.SecureRandom;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import millrace.integrity.NoteSigner;
import millrace.schemas.Prompt;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;

class CacheSaltsTest {
    private final NoteSigner signer = NoteSigner.generate("test", new SecureRandom());

    @Test
    void everyTenantHasASaltOfItsOwn() {
        CacheSalts salts = new CacheSalts(signer, "");
        Set<String> seen = new HashSet<>();
        for (String tenant : List.of("a", "b", "none", "tenant a", "group g", "")) {
            assertThat(salts.of(tenant)).matches("[0-9a-f]{64}").isEqualTo(salts.of(tenant));
            assertThat(seen.add(salts.of(tenant))).as(tenant).isTrue();
        }
        assertThat(seen.add(salts.of(null))).isTrue();
        CacheSalts another = new CacheSalts(NoteSigner.generate("test", new SecureRandom()), "");
        assertThat(another.of("a")).as("under another key").isNotEqualTo(salts.of("a"));
    }

    @Test
    void onlyTenantsOfOneGroupShare() {
        CacheSalts salts = new CacheSalts(signer, "acme:acme.eu, acme:us ; g:x");
        assertThat(salts.of("acme.eu")).isEqualTo(salts.of("acme:us"));
        assertThat(salts.of("x")).isNotEqualTo(salts.of("acme.eu"));
        assertThat(salts.of("acme")).as("named as the group, not in it").isNotEqualTo(salts.of("acme.eu"));
        assertThat(salts.of("g")).isNotEqualTo(salts.of("x"));
        assertThat(salts.of("alone")).isEqualTo(new CacheSalts(signer, "").of("alone"));
        assertThat(salts.of(null)).isEqualTo(new CacheSalts(signer, "").of(null));
    }

    @Test
    void readsGroups() {
        assertThat(CacheSalts.groups("  ")).isEmpty();
        assertThat(CacheSalts.groups("g:a,b;h:c:1")).isEqualTo(Map.of("a", "g", "b", "g", "c:1", "h"));
    }

    @Test
    void refusesWhatIsNoListOfGroups() {
        String name = "a group's name of 1 to 64 characters of A-Z a-z 0-9 . _ - before a colon";
        refused("g", name, "g");
        refused(":a", name, ":a");
        refused("g:a;", name, "");
        refused("g h:a", name, "g h:a");
        String tenants = "tenants of 1 to 64 characters of A-Z a-z 0-9 . _ : - after \"g:\"";
        refused("g:", tenants, "");
        refused("g:a,,b", tenants, "");
        refused("g:a/b", tenants, "a/b");
        refused("g:a;h:b,a", "each tenant once, in one group", "a in g and in h");
    }

    private static void refused(String groups, String expected, String got) {
        assertThatThrownBy(() -> ServiceConfig.of(Map.of(CacheSalts.KEY, groups)))
                .isInstanceOf(ConfigException.class)
                .hasMessage("config key \"engine.cache.groups\": expected " + expected + ", got \"" + got
                        + "\"; write group:tenant,tenant;group:tenant");
    }

    @Test
    void theKeyOfAPromptIsItsSession() {
        Prompt.Builder prompt = ServiceDriver.prompt("r-1", "hello");
        assertThat(PromptKey.of(prompt.build())).asString().isEqualTo("r-1");
        assertThat(PromptKey.of(prompt.setSessionId("s-1").build())).asString().isEqualTo("s-1");
    }
}

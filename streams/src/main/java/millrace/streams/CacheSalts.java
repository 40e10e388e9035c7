package millrace.streams;

import java.util.HashMap;
import java.util.Map;
import java.util.regex.Pattern;
import millrace.integrity.NoteSigner;
import org.apache.kafka.common.config.ConfigException;
import org.jspecify.annotations.Nullable;

/// Who may share KV pages with whom. Each tenant has a salt of its own, derived under the service's key and never taken
/// from the prompt; tenants of one group have the group's, and prompts without a tenant have one of theirs.
final class CacheSalts {
    static final String KEY = "engine.cache.groups";
    private static final Pattern GROUP = Pattern.compile("[A-Za-z0-9._-]{1,64}");
    private static final Pattern TENANT = Pattern.compile("[A-Za-z0-9._:-]{1,64}");

    private final NoteSigner signer;
    private final Map<String, String> groupOfTenant;

    /// @param groups see [#groups]
    CacheSalts(NoteSigner signer, String groups) {
        this.signer = signer;
        groupOfTenant = groups(groups);
    }

    /// The salt of a prompt's tenant.
    String of(@Nullable String tenant) {
        if (tenant == null) {
            return signer.cacheSalt("none");
        }
        String group = groupOfTenant.get(tenant);
        return signer.cacheSalt(group == null ? "tenant " + tenant : "group " + group);
    }

    /// The group of each tenant that has one.
    ///
    /// @param text `group:tenant,tenant;group:tenant,…`, or empty
    /// @throws ConfigException for anything else, and for a tenant that is named twice
    static Map<String, String> groups(String text) {
        Map<String, String> groups = new HashMap<>();
        if (text.isBlank()) {
            return groups;
        }
        for (String entry : text.split(";", -1)) {
            int colon = entry.indexOf(':');
            String group = colon < 0 ? "" : entry.substring(0, colon).strip();
            if (!GROUP.matcher(group).matches()) {
                throw wrong("a group's name of 1 to 64 characters of A-Z a-z 0-9 . _ - before a colon", entry);
            }
            for (String part : entry.substring(colon + 1).split(",", -1)) {
                String tenant = part.strip();
                if (!TENANT.matcher(tenant).matches()) {
                    throw wrong("tenants of 1 to 64 characters of A-Z a-z 0-9 . _ : - after \"" + group + ":\"", part);
                }
                String earlier = groups.put(tenant, group);
                if (earlier != null) {
                    throw wrong("each tenant once, in one group", tenant + " in " + earlier + " and in " + group);
                }
            }
        }
        return groups;
    }

    private static ConfigException wrong(String expected, String got) {
        return new ConfigException("config key \"" + KEY + "\": expected " + expected + ", got \"" + got.strip()
                + "\"; write group:tenant,tenant;group:tenant");
    }
}

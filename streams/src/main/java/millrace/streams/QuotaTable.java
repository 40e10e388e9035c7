package millrace.streams;

import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// How much each tenant may use.
///
/// @param others limits of tenants that have none of their own
/// @param byTenant limits of the tenants that are named; those without a name are [#ANONYMOUS]
record QuotaTable(Limits others, Map<String, Limits> byTenant) {
    /// What stands for prompts without a tenant; no tenant's name has an `@`.
    static final String ANONYMOUS = "@anonymous";
    /// Stands in metrics for tenants that are not named.
    static final String OTHERS = "@others";
    private static final String TOKENS = ".tokens.per.minute";
    private static final String INFLIGHT = ".inflight";
    private static final String CONTEXT = ".context";

    QuotaTable {
        byTenant = Map.copyOf(byTenant);
    }

    /// Limits of one tenant; 0 is none.
    ///
    /// @param tokensPerMinute tokens of prompts and answers together
    /// @param inflight prompts that were taken in and are not answered
    /// @param context prompt tokens and `max_tokens` of one prompt
    record Limits(long tokensPerMinute, int inflight, int context) {
        static final Limits NONE = new Limits(0, 0, 0);

        boolean isNone() {
            return equals(NONE);
        }
    }

    Limits of(String tenant) {
        return byTenant.getOrDefault(tenant, others);
    }

    /// Whether nobody is limited.
    boolean isEmpty() {
        return others.isNone() && byTenant.isEmpty();
    }

    static String name(@Nullable String tenant) {
        return tenant == null ? ANONYMOUS : tenant;
    }

    /// The limits that `quotas.*` gives to everybody.
    static QuotaTable of(ServiceConfig config) {
        return new QuotaTable(
                new Limits(config.number("quotas.tokens.per.minute"), config.integer("quotas.inflight"), config.integer("quotas.context")),
                Map.of());
    }

    /// Reads the file of tenants' own limits: Java properties in UTF-8, `TENANT.tokens.per.minute`, `TENANT.inflight` and
    /// `TENANT.context`. What a tenant's entries leave open is as for everybody.
    ///
    /// @throws IllegalArgumentException naming the entry, what was expected and what was got
    QuotaTable with(byte[] file) {
        Properties entries = new Properties();
        try {
            entries.load(new StringReader(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(file)).toString()));
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("expected text in UTF-8, got other bytes", e);
        } catch (IOException | IllegalArgumentException e) {
            throw new IllegalArgumentException("expected lines of key=value, got others (" + e.getMessage() + ")", e);
        }
        Map<String, Limits> limits = new TreeMap<>();
        for (String key : new java.util.TreeSet<>(entries.stringPropertyNames())) {
            String value = entries.getProperty(key).strip();
            if (key.endsWith(TOKENS)) {
                long most = number(key, value, TokenBucket.MOST_PER_MINUTE);
                limits.compute(tenant(key, TOKENS), (name, old) -> new Limits(most, or(old).inflight(), or(old).context()));
            } else if (key.endsWith(INFLIGHT)) {
                int most = (int) number(key, value, Integer.MAX_VALUE);
                limits.compute(tenant(key, INFLIGHT), (name, old) -> new Limits(or(old).tokensPerMinute(), most, or(old).context()));
            } else if (key.endsWith(CONTEXT)) {
                int most = (int) number(key, value, Integer.MAX_VALUE);
                limits.compute(tenant(key, CONTEXT), (name, old) -> new Limits(or(old).tokensPerMinute(), or(old).inflight(), most));
            } else {
                throw new IllegalArgumentException("entry \"" + key + "\": expected TENANT" + TOKENS + ", TENANT" + INFLIGHT
                        + " or TENANT" + CONTEXT + ", got another key");
            }
        }
        return new QuotaTable(others, limits);
    }

    private Limits or(@Nullable Limits own) {
        return own == null ? others : own;
    }

    private static String tenant(String key, String ending) {
        String tenant = key.substring(0, key.length() - ending.length());
        if (!tenant.equals(ANONYMOUS) && !Intake.isTenant(tenant)) {
            throw new IllegalArgumentException("entry \"" + key + "\": expected the name of a tenant before " + ending
                    + ", or " + ANONYMOUS + " for prompts without one, got another name");
        }
        return tenant;
    }

    private static long number(String key, String value, long most) {
        try {
            long number = Long.parseLong(value);
            if (number >= 0 && number <= most) {
                return number;
            }
        } catch (NumberFormatException e) {
            // Refused below.
        }
        throw new IllegalArgumentException(
                "entry \"" + key + "\": expected a whole number of 0 (no limit) to " + most + ", got \"" + value + "\"");
    }
}
